"""What this machine has: one module a subject, each giving checks that name the exact fix."""
