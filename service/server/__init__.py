"""Server processes: composition of the application, listening sockets, draining, and supervision."""
