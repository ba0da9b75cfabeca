"""What a load needs: machines, queue and Redis, on paper and by a simulation of the queue."""
