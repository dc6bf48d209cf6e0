"""What the catalog means: every rule of the contract as functions over one open transaction, without HTTP."""
