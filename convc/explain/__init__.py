"""What ``convc inspect`` says: loop nests with their rewrites, lanes, schedules, plans, programs."""
