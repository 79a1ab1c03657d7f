"""Reports for people: tables and pages of text, made of the records that the other packages leave."""
