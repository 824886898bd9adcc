"""Who else hears of training as it goes: one file each, chosen by --track."""
