"""Scrapes serial and parallel runs; by a real Prometheus, too, where that is installed."""

import http.client
import json
import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import tempfile
import time
import unittest
import urllib.error
import urllib.parse
import urllib.request

TIMEOUT = 120
HAS_PROMETHEUS = bool(shutil.which('prometheus') and shutil.which('promtool'))
DASHBOARD = 'deploy/prometheus/dashboard.json'
# What `ctl status` says of each counter of a parallel run.
COUNTERS = {
    'env_steps_total': lambda status: status['env_step'], 'train_iterations_total': lambda status: status['train_iter'],
    'workers_joined_total': lambda status: status['workers_joined'], 'workers_lost_total': lambda status: status['workers_lost'],
    'buffer_rows_pushed_total': lambda status: status['buffers'][0]['pushed'], 'buffer_rows_drawn_total': lambda status: status['buffers'][0]['drawn'],
}
STAGES = ('push', 'sample', 'publish', 'collect_task', 'evaluate')
open_url = urllib.request.build_opener(urllib.request.ProxyHandler({})).open
SERIAL = ['worker/serial', '--config=worker/configs/cartpole_dqn.textproto', '--set', 'env.stop_value=1e9']
TEXT = 'worker/prometheus/prometheus_text.cc'
PARALLEL = ['worker/parallel', '--config=worker/configs/cartpole_dqn_parallel_fast.textproto', '--set', 'env.stop_value=1e9']


def get(url):
    with open_url(url, timeout=30) as reply:
        return reply.read().decode()


def ask(url, cafile, token='', **others):
    """The status of the reply to somebody who trusts an authority and sends a token, and the reply."""
    headers = {'Authorization': f'Bearer {token}'} if token else {}
    headers.update(others.pop('headers', {}))
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=ssl.create_default_context(cafile=cafile)))
    try:
        with opener.open(urllib.request.Request(url, headers=headers, **others), timeout=30) as reply:
            return reply.status, reply.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def eventually(condition, what):
    """Returns the first value of condition() that is true."""
    deadline = time.monotonic() + TIMEOUT
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f'not within {TIMEOUT} s: {what()}')
        time.sleep(0.1)


class Program:
    """A program whose output goes into a file. It ends with the test."""

    def __init__(self, test, command):
        self.log = os.path.join(test.folder, f'log_{len(os.listdir(test.folder))}')
        with open(self.log, 'w') as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log)
        test.addCleanup(self.end)

    def text(self):
        with open(self.log) as log:
            return log.read()

    def end(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def wait_for(self, pattern):
        def find():
            if self.process.poll() is not None and not re.search(pattern, self.text()):
                raise AssertionError(f'it has ended: {self.text()}')
            return re.search(pattern, self.text())
        return eventually(find, self.text)[1]


class ScrapeTest(unittest.TestCase):

    def setUp(self):
        self.folder = tempfile.mkdtemp(dir=os.environ.get('TEST_TMPDIR'))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def train(self, command, *flags):
        """Starts a run that goes on until the test ends."""
        folder = os.path.join(self.folder, os.path.basename(command[0]))
        return Program(self, command + [f'--exp_dir={folder}', '--progress=off', *flags])

    def scrape(self, run, wanted):
        """The metrics of a run, once they have all lines that begin as in `wanted`."""
        url = run.wait_for(r'metrics: (\S+)')
        last = ['']

        def find():
            try:
                last[0] = get(url)
            except urllib.error.HTTPError as error:
                self.assertEqual(error.code, 503)
                return None
            return all(f'\n{line}' in last[0] for line in wanted)
        eventually(find, lambda: last[0] + run.text())
        return last[0]

    def check(self, text):
        if not HAS_PROMETHEUS:
            return
        checked = subprocess.run(['promtool', 'check', 'metrics'], input=text, capture_output=True, text=True, check=False)
        self.assertEqual((checked.returncode, checked.stdout + checked.stderr), (0, ''), text)

    def test_serial_run(self):
        run = self.train(SERIAL, '--http=127.0.0.1:0')
        text = self.scrape(run, [
            'ding_worker_env_steps_total ', 'ding_worker_train_iterations_total ', 'ding_worker_eval_return ',
            'ding_worker_value{name="loss"} ', 'ding_worker_buffer_rows_drawn_total{buffer="replay_buffer"} ',
            'ding_worker_buffer_staleness_iterations{', 'ding_worker_stage_seconds_bucket{stage="learn",le="0.001"} '])
        self.assertNotIn('worker_workers', text)
        self.check(text)
        # Its page shows this run alone, which takes no orders.
        page = run.wait_for(r'page: (\S+),')
        self.assertIn('watch.js', get(page))
        state = json.loads(get(f'{page}api/state'))
        self.assertEqual([shown['folder'] for shown in state['runs']], [f'{self.folder}/serial'])
        self.assertFalse(state['orders'])
        eventually(lambda: 'evaluator/reward_mean' in json.loads(get(f'{page}api/state'))['metrics'], run.text)
        self.assertEqual(get(f'{page}api/workers?run=0'), '{}')
        # Another program cannot have the same port, and says who has it.
        url = run.wait_for(r'metrics: (\S+)')
        other = subprocess.run(SERIAL + [f'--exp_dir={self.folder}/other', f'--http={urllib.parse.urlsplit(url).netloc}'],
                               capture_output=True, text=True, check=False)
        self.assertEqual(other.returncode, 1)
        self.assertRegex(other.stderr, rf'--http.*by serial \(process {run.process.pid}\)')
        self.assertFalse(os.path.exists(f'{self.folder}/other'))
        for command in (SERIAL, PARALLEL):
            empty = subprocess.run(command + [f'--exp_dir={self.folder}/empty', '--http='], capture_output=True, text=True, check=False)
            self.assertEqual(empty.returncode, 1)
            self.assertIn('--http is empty, expected ADDRESS:PORT', empty.stderr)
        # Beyond loopback it needs TLS and a token.
        beyond = subprocess.run(SERIAL + ['--http=0.0.0.0:0'], capture_output=True, text=True, check=False)
        self.assertEqual(beyond.returncode, 1)
        self.assertRegex(beyond.stderr, '--http.*TLS')

    def test_parallel_run(self):
        run = self.train(PARALLEL, '--http=127.0.0.1:0')
        text = self.scrape(run, [
            'ding_worker_workers{role="collector"} 2', 'ding_worker_workers{role="learner"} 1',
            'ding_worker_workers_lost_total 0', 'ding_worker_workers_waiting{role="learner",for="store"} 0',
            'ding_worker_worker_steps_per_second{worker=', 'ding_worker_buffer_rows{buffer="', 'ding_worker_eval_return '])
        for stage in STAGES:
            self.assertIn(f'\nding_worker_stage_seconds_count{{stage="{stage}"}} ', text)
        self.check(text)
        page = run.wait_for(r'page: (\S+),')
        eventually(lambda: len((json.loads(get(f'{page}api/workers?run=0')).get('status') or {'workers': []})['workers']) == 3,
                   lambda: get(f'{page}api/workers?run=0'))
        # Workers serve their own stages, and leave the run to the coordinator.
        with open(os.path.join(self.folder, 'parallel', 'coordinator', 'address')) as file:
            coordinator = file.read().strip()
        worker = Program(self, ['worker/parallel', '--role=collector', f'--coordinator={coordinator}', '--http=127.0.0.1:0'])
        text = self.scrape(worker, [f'ding_worker_stage_seconds_count{{stage="{stage}"}} ' for stage in ('collect', 'push', 'evaluate')])
        self.assertEqual(re.findall(r'# TYPE ding_worker_(\S+)', text), ['run_info', 'stage_seconds', 'status_age_seconds'])
        eventually(lambda: 'stage_seconds_count{stage="push"} 0\n' not in self.scrape(worker, []), worker.text)
        self.check(text)
        self.assertIn('The metrics of this process', get(worker.wait_for(r'page: (\S+),')))
        refused = subprocess.run(['worker/parallel', '--role=aggregator', '--coordinator=127.0.0.1:1', '--http=127.0.0.1:0'],
                                 capture_output=True, text=True, check=False)
        self.assertEqual(refused.returncode, 1)
        self.assertIn('--http=127.0.0.1:0 is for the coordinator', refused.stderr)

    def start_prometheus(self, job):
        """Starts one that scrapes what `job` says. Returns its address and a function for queries."""
        with socket.socket() as free:
            free.bind(('127.0.0.1', 0))
            base = f'http://127.0.0.1:{free.getsockname()[1]}'
        config = os.path.join(self.folder, 'prometheus.yml')
        with open(config, 'w') as file:
            # A JSON text is YAML, too.
            json.dump({'global': {'scrape_interval': '1s', 'evaluation_interval': '1s'},
                       'rule_files': [os.path.abspath('deploy/prometheus/alerts.yml')], 'scrape_configs': [job]}, file)
        prometheus = Program(self, ['prometheus', f'--config.file={config}', f'--storage.tsdb.path={self.folder}/tsdb',
                                    f'--web.listen-address={urllib.parse.urlsplit(base).netloc}'])
        prometheus.wait_for('(Server is ready)')

        def query(expression):
            reply = json.loads(get(f'{base}/api/v1/query?' + urllib.parse.urlencode({'query': expression})))
            self.assertEqual(reply['status'], 'success', reply)
            return {sample['metric'].get('instance'): float(sample['value'][1]) for sample in reply['data']['result']}

        eventually(lambda: query('changes(ding_worker_env_steps_total[1m]) > 1'), lambda: get(f'{base}/api/v1/targets') + prometheus.text())
        return base, query

    def check_rules(self, base, query, text):
        """Each query of the dashboard has an answer, if all its metrics are in the text of the run; else the metrics exist."""
        with open(TEXT) as file:
            known = set(re.findall(r'"([a-z_]+)"', file.read())) | {'status_age_seconds', 'stage_seconds_bucket', 'stage_seconds_sum'}
        with open(DASHBOARD) as file:
            dashboard = json.load(file)
        queries = [target['expr'] for panel in dashboard['panels'] for target in panel['targets']]
        self.assertGreater(len(queries), 10)
        for expression in queries:
            names = set(re.findall(r'ding_worker_([a-z_]+)', expression))
            self.assertLessEqual(names, known, expression)
            if not all(f'\nding_worker_{name}' in text for name in names):
                continue
            expression = expression.replace('$__rate_interval', '1m').replace('$job', 'ding_worker.*').replace('$instance', '.*')
            eventually(lambda e=expression: query(e), lambda e=expression: f'no answer: {e}')
        # So have the alerts, none of which complains.
        def evaluated():
            groups = json.loads(get(f'{base}/api/v1/rules'))['data']['groups']
            rules = [rule for group in groups for rule in group['rules']]
            return len(rules) == 5 and all(rule['health'] == 'ok' and rule['state'] == 'inactive' for rule in rules)
        eventually(evaluated, lambda: get(f'{base}/api/v1/rules'))
        with open('deploy/prometheus/alerts.yml') as file:
            names = set(re.findall(r'ding_worker_([a-z_]+)', file.read()))
        self.assertLessEqual(names, known)

    @unittest.skipUnless(HAS_PROMETHEUS, 'prometheus and promtool are missing (tools/setup prometheus)')
    def test_prometheus(self):
        run = self.train(SERIAL, '--http=127.0.0.1:0')
        target = urllib.parse.urlsplit(run.wait_for(r'metrics: (\S+)')).netloc
        base, query = self.start_prometheus({'job_name': 'ding_worker', 'static_configs': [{'targets': [target]}]})
        # What Prometheus has is what the run says of itself.
        self.assertLess(query('ding_worker_env_steps_total')[target], float(
            re.search(r'\nding_worker_env_steps_total (\S+)', get(f'http://{target}/metrics'))[1]) + 1)
        self.check_rules(base, query, self.scrape(
            run, ['ding_worker_eval_return ', 'ding_worker_buffer_staleness_iterations{', 'ding_worker_value{name="loss"} ']))

    def test_parallel_run_beyond_loopback(self):
        subprocess.run(['tools/make_certs', f'{self.folder}/certs', 'localhost'], check=True, stdout=subprocess.DEVNULL)
        links = {role: [f'--tls_ca={self.folder}/certs/{role}/ca.pem', f'--tls_cert={self.folder}/certs/{role}/cert.pem',
                        f'--tls_key={self.folder}/certs/{role}/key.pem', f'--token_file={self.folder}/certs/{role}/tokens']
                 for role in ('coordinator', 'operator')}
        run = self.train(PARALLEL, '--http=0.0.0.0:0', *links['coordinator'])
        target = 'localhost:' + run.wait_for(r'metrics: https://\S+:(\d+)/metrics')
        ca = f'{self.folder}/certs/operator/ca.pem'
        with open(f'{self.folder}/certs/operator/tokens') as file:
            token = file.read().split()[1]
        eventually(lambda: ask(f'https://{target}/metrics', ca, token)[0] == 200, run.text)
        self.assertEqual(ask(f'https://{target}/metrics', ca)[0], 401)
        self.assertEqual(ask(f'https://{target}/metrics', ca, 'f' * 64)[0], 401)
        with self.assertRaises((OSError, http.client.HTTPException)):
            get(f'http://{target}/metrics')
        with self.assertRaisesRegex(urllib.error.URLError, 'CERTIFICATE_VERIFY_FAILED'):
            ask(f'https://{target}/metrics', None, token)
        # The page takes orders of operators.
        self.assertTrue(json.loads(ask(f'https://{target}/api/state', ca, token)[1])['orders'])
        order = f'https://{target}/api/order?' + urllib.parse.urlencode({'folder': f'{self.folder}/parallel', 'order': 'shrink', 'argument': 1})
        origin = {'headers': {'Origin': f'https://{target}'}, 'method': 'POST'}
        with open(f'{self.folder}/certs/collector/tokens') as file:
            self.assertEqual(ask(order, ca, file.read().split()[1], **origin)[0], 403)
        self.assertEqual(json.loads(ask(order, ca, token, **origin)[1])['done'], True)
        with open(f'{self.folder}/parallel/coordinator/orders.jsonl') as file:
            self.assertEqual([json.loads(line)['order'] for line in file], ['shrink 1'] * 2)
        if not HAS_PROMETHEUS:
            return
        token_file = os.path.join(self.folder, 'token')
        with open(token_file, 'w') as file:
            file.write(token)
        base, query = self.start_prometheus({
            'job_name': 'ding_worker_remote', 'scheme': 'https', 'authorization': {'credentials_file': token_file}, 'tls_config': {'ca_file': ca},
            'static_configs': [{'targets': [target]}]})
        with open(os.path.join(self.folder, 'parallel', 'coordinator', 'address')) as file:
            coordinator = file.read().strip()

        def status():
            said = subprocess.run(['worker/ctl', 'status', '--json', f'--coordinator={coordinator}', *links['operator']], capture_output=True,
                                  text=True, check=True)
            return json.loads(said.stdout)

        # Counters grow: what Prometheus scrapes in between is between what `ctl status` says.
        for name, of in COUNTERS.items():
            least = of(status())
            eventually(lambda n=name, v=least: query(f'ding_worker_{n}').get(target, -1) >= v, lambda n=name: f'{n} is not {least}')
            self.assertLessEqual(query(f'ding_worker_{name}')[target], of(status()), name)
        for stage in STAGES:
            quantile = f'histogram_quantile(0.9, ding_worker_stage_seconds_bucket{{stage="{stage}"}}) > 0'
            eventually(lambda q=quantile: query(q), lambda q=quantile: f'no answer: {q}')
        for worker in status()['workers']:
            self.assertLessEqual(worker['lease_seconds_left'], 5)
            self.assertGreater(worker['lease_seconds_left'], 0)
        self.assertTrue(query('ding_worker_worker_lease_seconds_left > 0'))
        eventually(lambda: query('ding_worker_worker_staleness_iterations{role="collector"}') and
                   query('ding_worker_worker_staleness_iterations{role="learner"}'), lambda: str(status()))
        self.check_rules(base, query, ask(f'https://{target}/metrics', ca, token)[1])


if __name__ == '__main__':
    unittest.main()
