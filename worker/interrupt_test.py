"""Signals in every stage of the programs: each ends within about a second, and what was saved goes on."""

import fcntl
import json
import os
import pty
import signal
import subprocess
import sys
import tempfile
import termios
import threading
import time
import unittest

TESTDATA = os.path.abspath('env/gymnasium/testdata')
SERIAL, EVALUATE, PARALLEL = (os.path.abspath(f'worker/{name}') for name in ('serial', 'evaluate', 'parallel'))
SIGNALS = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1]
SOON = 15  # seconds; about one where nothing else runs. What hangs takes a minute or more

ENV = '''type: "gymnasium" collector_env_num: 2 evaluator_env_num: 2 n_evaluator_episode: 2
  params { %s } evaluator_type: "gymnasium" evaluator_params { %s }'''
DQN = '''exp_name: "stages" env { %s %s }
policy { type: "dqn" params { [type.googleapis.com/ding.DqnConfig] { model { encoder_hidden_size: [8] } } }
  learn { update_per_collect: 2 batch_size: 8 } collect { n_sample: 16 } eval { evaluator { eval_freq: 10 } } } %s'''
PPO = '''exp_name: "stages" env { %s %s }
policy { type: "ppo" params { [type.googleapis.com/ding.PpoConfig] { actor_critic { model { encoder_hidden_size: [8] }
    critic { encoder_hidden_size: [8] } } epoch_per_collect: %d } }
  learn { batch_size: 8 } collect { n_sample: 64 } eval { evaluator { eval_freq: 1000 } } } %s'''
PARALLEL_DQN = '''exp_name: "stages" env { %s %s n_confirm_episode: 0 }
policy { type: "dqn" params { [type.googleapis.com/ding.DqnConfig] { model { encoder_hidden_size: [8] } } }
  learn { batch_size: 8 learner_num: 1 } collect { n_sample: 32 collector { collector_num: 1 } } } %s'''


class InterruptTest(unittest.TestCase):

    def setUp(self):
        self.folder = tempfile.mkdtemp(dir=os.environ.get('TEST_TMPDIR'))
        self.runs = 0

    def params(self, where):
        kwargs = json.dumps({'where': where, 'mark': self.mark}).replace('"', '\\"')
        return ('[type.googleapis.com/ding.GymnasiumConfig] { entry_point: "stages:Stages" '
                f'python: "/usr/bin/python3" python_path: "{TESTDATA}" kwargs: "{kwargs}" }}')

    def start(self, config, collects='', evaluates='', settings=(), program=SERIAL, more=''):
        """Starts a program with a config whose envs stay in these calls."""
        self.runs += 1
        self.run_folder = f'{self.folder}/{self.runs}'
        self.mark = f'{self.run_folder}.mark'
        path = f'{self.run_folder}.textproto'
        with open(path, 'w') as file:
            envs = ENV % (self.params(collects), self.params(evaluates))
            values = (envs, '', *more) if isinstance(more, tuple) else (envs, '', more)
            file.write(config % values)
        return self.launch([program, f'--config={path}', f'--exp_dir={self.run_folder}', '--seed=1',
                            *(f'--set={setting}' for setting in settings)])

    def launch(self, command):
        self.errors = f'{self.folder}/errors'
        with open(self.errors, 'w') as errors:
            # Not a child of a shell, which would have SIGINT ignored.
            return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=errors, preexec_fn=lambda: [
                signal.signal(number, signal.SIG_DFL) for number in SIGNALS])

    def on_a_terminal(self, config, program, **options):
        """Does as start() in the foreground of a terminal. Returns the process and what types there."""
        keyboard, terminal = pty.openpty()

        def launch(command):
            self.errors = f'{self.folder}/errors'
            open(self.errors, 'w').close()

            def take_terminal():
                for number in SIGNALS:
                    signal.signal(number, signal.SIG_DFL)
                fcntl.ioctl(0, termios.TIOCSCTTY, 0)
            return subprocess.Popen(command, stdin=terminal, stdout=terminal, stderr=terminal, start_new_session=True,
                                    preexec_fn=take_terminal)
        self.launch, kept = launch, self.launch
        try:
            process = self.start(config, program=program, **options)
        finally:
            self.launch = kept
        os.close(terminal)

        def show():
            with open(self.errors, 'ab', buffering=0) as errors:
                try:
                    while shown := os.read(keyboard, 1 << 16):
                        errors.write(shown)
                except OSError:  # The last process has closed the terminal.
                    pass
        threading.Thread(target=show, daemon=True).start()
        return process, lambda keys: os.write(keyboard, keys)

    def text(self):
        with open(self.errors) as errors:
            return errors.read()

    def wait_until(self, process, condition):
        deadline = time.monotonic() + 60
        while not condition():
            self.assertIsNone(process.poll(), self.text())
            self.assertLess(time.monotonic(), deadline, self.text())
            time.sleep(0.02)

    @staticmethod
    def catches(process, number):
        with open(f'/proc/{process.pid}/status') as status:
            caught = next(line.split()[1] for line in status if line.startswith('SigCgt:'))
        return int(caught, 16) >> (number - 1) & 1

    def end(self, process, number, status=None):
        """Sends the signal and expects the process to end soon."""
        begun = time.monotonic()
        process.send_signal(number)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            with open(f'/proc/{process.pid}/status') as status:
                self.fail(f'it does not end; {status.read()}\n{self.text()}')
        finally:
            process.kill()
        took = time.monotonic() - begun
        self.assertEqual(process.returncode, 128 + number if status is None else status, self.text())
        self.assertLess(took, SOON, self.text())

    def resume(self, *settings):
        result = subprocess.run([SERIAL, '--resume', f'--exp_dir={self.run_folder}',
                                 *(f'--set={setting}' for setting in settings)], capture_output=True, text=True, timeout=60)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stderr

    def resume_points(self):
        checkpoints = f'{self.run_folder}/ckpt'
        return [name for name in os.listdir(checkpoints) if name.startswith('resume_')] if os.path.isdir(checkpoints) else []

    def stays(self, config=DQN, **options):
        process = self.start(config, **options)
        self.wait_until(process, lambda: os.path.exists(self.mark))
        time.sleep(0.2)
        return process

    def test_set_up(self):
        for number in SIGNALS:
            process = self.stays(collects='init')
            self.end(process, number)
            self.assertIn('nothing is saved', self.text())
            self.assertFalse(os.path.exists(self.run_folder), 'the same --exp_dir can be used again')

    def test_collecting_and_a_long_step(self):
        for number in SIGNALS:
            process = self.stays(collects='step')
            self.end(process, number)
            self.assertEqual(self.resume_points(), ['resume_0'])
            self.assertIn('ckpt_interrupt and resume_0', self.text())
            with open(f'{self.run_folder}/result.json') as result:
                self.assertEqual(json.load(result)['why'], 'it was interrupted')
        self.assertIn('resuming at env step 0', self.resume('max_env_step=100'))

    def test_a_run_that_collects_and_learns(self):
        for number in SIGNALS:
            process = self.start(DQN, settings=['resume.period_rounds=10'])
            self.wait_until(process, lambda: len(self.resume_points()) == 2)
            self.end(process, number)
            self.assertIn('go on with', self.text())
        step = max(int(name.split('_')[1]) for name in self.resume_points())
        self.assertIn(f'resuming at env step {step}', self.resume(f'max_env_step={step + 100}'))

    def test_evaluations(self):
        for number in SIGNALS:
            # The first one never ends. The second one is in a call that takes long.
            process = self.start(DQN, evaluates='endless', settings=['policy.eval.evaluator.max_episode_steps=1000000000'])
            self.wait_until(process, lambda: 'evaluating' in self.text())
            self.end(process, number)
            self.assertEqual(self.resume_points(), ['resume_0'])
        for number in SIGNALS[:2]:
            self.end(self.stays(evaluates='step'), number)
            self.assertEqual(self.resume_points(), ['resume_0'])
        self.resume('max_env_step=100')

    def test_a_long_update(self):
        for number in SIGNALS:
            process = self.start(PPO, more=(100000, ''))
            self.wait_until(process, lambda: os.path.isdir(f'{self.run_folder}/ckpt') or 'evaluator' in self.log())
            time.sleep(1)
            self.end(process, number)
            self.assertEqual(self.resume_points(), ['resume_0'])

    def log(self):
        path = f'{self.run_folder}/log/serial_logger.txt'
        if not os.path.exists(path):
            return ''
        with open(path) as log:
            return log.read()

    def test_many_updates(self):
        process = self.start(DQN, settings=['policy.learn.update_per_collect=1000000000'])
        self.wait_until(process, lambda: 'evaluator' in self.log())
        time.sleep(1)
        self.end(process, signal.SIGTERM)
        self.assertEqual(self.resume_points(), ['resume_0'])

    def test_closing(self):
        for number in SIGNALS:
            process = self.start(DQN, collects='close', settings=['max_env_step=64'])
            self.wait_until(process, lambda: os.path.exists(self.mark))
            self.end(process, number)
            self.assertTrue(os.path.exists(f'{self.run_folder}/result.json'))

    def test_a_debugger_on_a_terminal(self):
        for config, program in ((DQN, SERIAL), (PARALLEL_DQN, PARALLEL)):
            process, _ = self.on_a_terminal(config, program, collects='debugger')
            self.assertEqual(process.wait(60), 1, self.text())
            self.wait_for_text('Debug one env alone')

    def test_ctrl_c_on_a_terminal(self):
        endless = ['policy.eval.evaluator.max_episode_steps=1000000000', 'max_env_step=1000000000']
        for config, program in ((DQN, SERIAL), (PARALLEL_DQN, PARALLEL)):
            process, types = self.on_a_terminal(config, program, evaluates='endless', settings=endless)
            self.wait_until(process, lambda: 'evaluating' in self.text())
            types(b'\x03')
            begun = time.monotonic()
            self.assertEqual(process.wait(60), 128 + signal.SIGINT, self.text())
            self.assertLess(time.monotonic() - begun, SOON, self.text())
            self.wait_for_text('go on with')

    def wait_for_text(self, text):
        deadline = time.monotonic() + 10
        while text not in self.text():
            self.assertLess(time.monotonic(), deadline, self.text())
            time.sleep(0.02)

    def test_a_config_that_nobody_writes(self):
        for program in (SERIAL, PARALLEL):
            for number in SIGNALS[:2]:
                path = f'{self.folder}/fifo_{os.path.basename(program)}_{number}'
                os.mkfifo(path)
                process = self.launch([program, f'--config={path}', f'--exp_dir={self.folder}/none'])
                self.wait_until(process, lambda: f"waiting for the config: '{path}'" in self.text())
                self.end(process, number, -number)

    def test_a_second_signal_ends_it_at_once(self):
        process = self.stays(collects='step')
        process.send_signal(signal.SIGTERM)
        process.send_signal(signal.SIGTERM)  # as timeout(1) does: the same one
        time.sleep(0.2)
        process.send_signal(signal.SIGTERM)
        process.wait(10)
        self.assertEqual(process.returncode, -signal.SIGTERM)

    def test_nohup(self):
        process = self.start(DQN)
        process.kill()
        process.wait()
        config = f'{self.run_folder}.textproto'
        process = subprocess.Popen([SERIAL, f'--config={config}', f'--exp_dir={self.run_folder}.nohup'],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                   preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
        time.sleep(2)
        process.send_signal(signal.SIGHUP)
        time.sleep(1.5)
        self.assertIsNone(process.poll())
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(20), 128 + signal.SIGTERM)

    def test_checkpoints_that_cannot_be_written_for_a_while(self):
        process = self.start(DQN, settings=['policy.learn.learner.hook.save_ckpt_after_iter=5', 'resume.period_rounds=20'])
        checkpoints = f'{self.run_folder}/ckpt'
        self.wait_until(process, lambda: len(self.resume_points()) == 2)
        os.rename(checkpoints, f'{checkpoints}.away')
        open(checkpoints, 'w').close()
        self.wait_until(process, lambda: 'could not be written' in self.text())
        time.sleep(2)
        self.assertIsNone(process.poll(), self.text())
        self.assertLessEqual(self.text().count('could not be written'), 2, self.text())
        os.remove(checkpoints)
        self.wait_until(process, lambda: len(self.resume_points()) == 2)
        self.end(process, signal.SIGTERM)
        self.assertTrue([name for name in os.listdir(checkpoints) if name.startswith('iteration_')])

    def test_an_endless_env_is_evaluated(self):
        process = self.start(DQN, evaluates='endless', settings=['policy.eval.evaluator.max_episode_steps=50', 'max_env_step=100'])
        self.assertEqual(process.wait(60), 0, self.text())
        self.assertIn('needs the wrapper time_limit', self.text())
        with open(f'{self.run_folder}/result.json') as result:
            self.assertEqual(json.load(result)['eval_value_raw'], [-50, -50])

    def test_evaluate(self):
        self.assertEqual(self.start(DQN, evaluates='endless', settings=[
            'policy.eval.evaluator.max_episode_steps=50', 'max_env_step=100']).wait(60), 0, self.text())
        play = [EVALUATE, f'--checkpoint={self.run_folder}', '--set=policy.eval.evaluator.max_episode_steps=']
        for number in SIGNALS:
            for more in ([], [f'--record_episodes={self.folder}/episodes']):
                process = self.launch([*play[:2], play[2] + '1000000000', *more])
                time.sleep(1.5)
                self.end(process, number)
                self.assertIn('interrupted', self.text())
        # Episodes without an end are recorded, too, and films end.
        done = subprocess.run([*play[:2], play[2] + '70', f'--record_episodes={self.folder}/episodes', '--episodes=2'],
                              capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn('-70 -70', done.stdout)
        self.assertIn('time_limit', done.stderr)

    def test_parallel(self):
        for number in SIGNALS:
            process = self.start(PARALLEL_DQN, program=PARALLEL)
            self.wait_until(process, lambda: os.path.isdir(f'{self.run_folder}/coordinator'))
            time.sleep(2)
            self.end(process, number)
            self.assertIn('go on with', self.text())

    def test_parallel_with_a_long_step(self):
        for number in SIGNALS[:2]:
            process = self.stays(PARALLEL_DQN, collects='step', program=PARALLEL)
            self.end(process, number)

    def test_a_worker_that_joins(self):
        for role in ('collector', 'learner'):
            for number in SIGNALS:
                process = self.launch([PARALLEL, f'--role={role}', '--coordinator=127.0.0.1:1'])
                self.wait_until(process, lambda: self.catches(process, number))
                time.sleep(0.2)
                self.end(process, number)


if __name__ == '__main__':
    unittest.main(verbosity=2, argv=sys.argv)
