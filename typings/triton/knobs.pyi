nvidia: object
