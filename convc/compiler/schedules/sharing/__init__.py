"""Schedules that fetch activations once per filter row and share them between its filter columns.

slide       the tile and its halo stay in shared memory; filter column s reads them from j(s) rows further on
shift       the tile goes to tensor memory, and its rows move from lane to lane
stationary  weights are the first operand, pixels the columns of the second; filter column s shifts those by j(s)
"""
