"""What a person sees: status, tables, reasons, pictures."""
