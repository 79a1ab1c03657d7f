"""What a person reads: tables and pages of text, made of the records that the other rooms leave."""
