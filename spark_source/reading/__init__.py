"""Reading: ranges are planned on the driver, and read on executors."""
