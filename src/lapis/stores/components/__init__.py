"""Networks that live in tables: components packed into parcels, solved wherever there is room."""
