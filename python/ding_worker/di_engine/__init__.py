"""Runs configs of DI-engine, which are read and not executed:  python -m ding_worker.di_engine CONFIG.py"""
