"""Tests the page of tools/watch in a headless Chromium, by the WebDriver protocol of chromedriver. Pictures of it go to the outputs of
the test.

    page_test.py WATCH PARALLEL
"""

import base64
import json
import math
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.error
import urllib.request

WATCH, PARALLEL = sys.argv.pop(1), sys.argv.pop(1)
OUTPUTS = os.environ.get('TEST_UNDECLARED_OUTPUTS_DIR')
HEADER = 'step,tag,value,wall_time\n'
EVIL = '<script>window.pwned=1</script><img src=x onerror="window.pwned=1">'
# As EVIL, as the name of a worker, in which a slash is refused.
NAME = '<img src=x onerror="window.pwned=1">'
KEY = 'element-6066-11e4-a52e-4f735466cecf'
TIMEOUT = 60
# A picture of one pixel.
GIF = base64.b64decode('R0lGODlhAQABAIAAAAAAAP///ywAAAAAAQABAAACAUwAOw==')
EVENTS = ''.join(json.dumps({'time': 1.7e9 + 40 * i, 'event': event, 'name': EVIL, 'env_step': 900 * i, 'text': f'{event} of {EVIL}'}, separators=(',', ':')) + '\n'
                 for i, event in enumerate(['start', 'join', 'evaluation', 'fault', 'checkpoint', 'leave', 'refusal', 'end']))
# What the view of a key has when it is drawn.
DRAWN = {'1': '.card canvas', '2': '#stages .bar', '3': '#videos img', '4': '#config-table td', '5': '#log-text:not(:empty)',
         '6': '.workers circle', '7': '#histograms canvas'}
# For each element with text of its own: its contrast with what is behind it, by WCAG 2.1.
CONTRASTS = '''
const parse = (c) => c.match(/[\\d.]+/g).map(Number);
const light = (c) => {
  const [r, g, b] = c.slice(0, 3).map((v) => { v /= 255; return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; });
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const bad = [];
for (const e of document.querySelectorAll('body *')) {
  if (!e.checkVisibility() || ![...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim())) continue;
  let behind = e;
  while (behind && (parse(getComputedStyle(behind).backgroundColor)[3] ?? 1) === 0) behind = behind.parentElement;
  const a = light(parse(getComputedStyle(e).color));
  const b = light(parse(getComputedStyle(behind ?? document.body).backgroundColor));
  const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  if (ratio < 4.5) bad.push(e.tagName + ' ' + e.textContent.slice(0, 40) + ' ' + ratio.toFixed(2));
}
return bad;'''


class Failed(Exception):
    pass


class Browser:
    """A session of chromedriver."""

    def __init__(self, folder):
        self.driver = subprocess.Popen(['chromedriver', '--port=0'], stdout=subprocess.PIPE, text=True)
        port = None
        while port is None:
            line = self.driver.stdout.readline()
            if not line:
                raise Failed('chromedriver has ended')
            found = re.search(r'started successfully on port (\d+)', line)
            port = found and found[1]
        self.open = urllib.request.build_opener(urllib.request.ProxyHandler({})).open
        self.base = f'http://127.0.0.1:{port}'
        arguments = [
            '--headless', '--no-sandbox', '--disable-gpu', '--no-first-run', '--disable-background-networking',
            '--disable-component-update', '--disable-sync', '--disable-dev-shm-usage', '--hide-scrollbars',
            f'--user-data-dir={folder}', '--window-size=1280,900'
        ]
        options = {'goog:chromeOptions': {'args': arguments}, 'goog:loggingPrefs': {'browser': 'ALL'}}
        session = self.call('POST', '/session', {'capabilities': {'alwaysMatch': options}})
        self.base += '/session/' + session['sessionId']

    def call(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.base + path, data=data, method=method, headers={'Content-Type': 'application/json'})
        try:
            with self.open(request, timeout=TIMEOUT) as reply:
                return json.load(reply)['value']
        except urllib.error.HTTPError as error:
            raise Failed(json.load(error)['value']['message']) from None

    def run(self, script, *arguments):
        return self.call('POST', '/execute/sync', {'script': script, 'args': list(arguments)})

    def go(self, url):
        self.call('POST', '/url', {'url': url})

    def press(self, keys):
        actions = [{'type': kind, 'value': key} for key in keys for kind in ('keyDown', 'keyUp')]
        self.call('POST', '/actions', {'actions': [{'type': 'key', 'id': 'keyboard', 'actions': actions}]})

    def resize(self, width, height):
        metrics = {'width': width, 'height': height, 'deviceScaleFactor': 1, 'mobile': width < 700}
        self.call('POST', '/goog/cdp/execute', {'cmd': 'Emulation.setDeviceMetricsOverride', 'params': metrics})

    def wait(self, script, what):
        deadline = time.monotonic() + TIMEOUT
        while time.monotonic() < deadline:
            value = self.run(script)
            if value:
                return value
            time.sleep(0.05)
        raise Failed(f'not seen: {what}; the page says:\n' + self.run('return document.body.innerText')[:2000])

    def picture(self, name):
        if OUTPUTS:
            with open(os.path.join(OUTPUTS, name), 'wb') as file:
                file.write(base64.b64decode(self.call('GET', '/screenshot')))

    def close(self):
        try:
            self.call('DELETE', '')
        finally:
            self.driver.terminate()
            self.driver.wait()
            self.driver.stdout.close()


def varint(value):
    return bytes([value]) if value < 128 else bytes([value & 127 | 128]) + varint(value >> 7)


def event_file(tag):
    """A file of TensorBoard with histograms, whose checksums are 0."""
    def field(number, content):
        return bytes([8 * number + 2]) + varint(len(content)) + content

    records = b''
    for step in range(1, 40):
        edges = [step / 40 + i / 10 - 1 for i in range(21)]
        counts = [round(1000 * math.exp(-((i - 10) ** 2) / (2 + step))) for i in range(20)]
        histo = struct.pack('<Bd', 9, edges[0]) + field(6, struct.pack('<20d', *edges[1:])) + field(7, struct.pack('<20d', *counts))
        event = bytes([16]) + varint(step * 2000) + field(5, field(1, field(1, tag.encode()) + field(5, histo)))
        records += struct.pack('<QI', len(event), 0) + event + bytes(4)
    return records


def rows(seed, best, count=60):
    """Lines of metrics that look like those of a run."""
    lines = []
    for i in range(count):
        step, now, rise = i * 2000, 1.7e9 + i, best * (1 - math.exp(-i / 15))
        noise = math.sin(i * 12.9898 + seed * 78.233) * best / 12
        lines.append(f'{step},evaluator_step/reward_mean,{rise + noise},{now}\n')
        lines.append(f'{step},collector_step/reward_mean,{0.9 * rise + 2 * noise},{now}\n')
        lines.append(f'{step},learner_step/total_loss_avg,{5 * math.exp(-i / 20) + 0.05 + abs(noise) / best},{now}\n')
        for stage, seconds in (('collect', 0.5), ('learn', 1.4), ('evaluate', 0.2), ('save', 0.05)):
            lines.append(f'{step},run_step/{stage}_seconds,{i * seconds},{now}\n')
        lines.append(f'{step},run_step/env_steps_per_second,{4000 + 50 * noise},{now}\n')
    return ''.join(lines)


class PageTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix='page_test.')
        for seed in range(3):
            cls.write_run(f'ppo_{seed}', f'seed: {seed}\nlr: 0.001\n', rows(seed, 480))
        cls.write_run('dqn', 'seed: 0\nlr: 0.01\n', rows(7, 300))
        cls.write_run(EVIL.replace('/', '_'), f'note: "{EVIL}"\n', rows(9, 200) + f'1,"x_step/{EVIL.replace(chr(34), chr(34) * 2)}",1,1700000000\n')
        cls.write_run('broken', '', 'what is this\n')
        cls.watch = subprocess.Popen([WATCH, f'--run={cls.folder}', '--http=127.0.0.1:0'], stdout=subprocess.PIPE, text=True)
        line = cls.watch.stdout.readline()
        assert line.startswith('watching 6 runs: http://127.0.0.1:'), line
        cls.url = line.split()[-1]
        cls.browser = Browser(os.path.join(cls.folder, '.profile'))

    @classmethod
    def tearDownClass(cls):
        cls.browser.close()
        cls.watch.terminate()
        cls.watch.wait()
        cls.watch.stdout.close()
        shutil.rmtree(cls.folder, ignore_errors=True)

    @classmethod
    def write_run(cls, name, config, metrics):
        run = os.path.join(cls.folder, name)
        os.makedirs(os.path.join(run, 'log'))
        os.makedirs(os.path.join(run, 'videos'))
        with open(os.path.join(run, 'total_config.textproto'), 'w') as file:
            file.write(config)
        with open(os.path.join(run, 'log', 'metrics.csv'), 'w') as file:
            file.write(HEADER + metrics)
        with open(os.path.join(run, 'log', 'serial_logger.txt'), 'w') as file:
            file.write('first line\n' + EVIL + '\nlast line\n')
        with open(os.path.join(run, 'log', 'events.jsonl'), 'w') as file:
            file.write(EVENTS)
        with open(os.path.join(run, 'log', 'events.out.tfevents.1.host.1.0'), 'wb') as file:
            file.write(event_file('learner_iter/td_error' if name == 'dqn' else EVIL))
        with open(os.path.join(run, 'videos', 'evaluation_episode_0.gif'), 'wb') as file:
            file.write(GIF)

    def setUp(self):
        self.browser.resize(1280, 900)
        self.browser.go(self.url)
        self.browser.wait("return document.querySelector('.card canvas') && document.querySelector('.readout').textContent.includes('dqn')", 'a curve')

    def look_at(self, key):
        """Shows the view of a key, and waits until it is drawn."""
        self.browser.press(key)
        self.browser.wait(f'return document.querySelector({json.dumps(DRAWN[key])})?.checkVisibility()', DRAWN[key])

    def text(self, selector):
        return self.browser.run('return document.querySelector(arguments[0]).innerText', selector)

    def test_curves_show_medians_and_the_damaged_run(self):
        self.assertIn('ppo (3 seeds)', self.text('.readout'))
        self.assertIn('line 2 is', self.text('#runs .damage'))
        self.assertEqual(self.browser.wait("return document.getElementById('connection').textContent === 'live'", 'live'), True)
        self.browser.press('g')
        self.browser.wait("return document.querySelector('.readout').textContent.includes('ppo_2')", 'a curve of each seed')
        self.browser.picture('light.png')

    def test_text_of_strangers_stays_text(self):
        self.browser.run("document.getElementById('metric-filter').value = 'script'; document.getElementById('metric-filter').oninput()")
        self.browser.wait("return document.querySelectorAll('.card').length === 1", 'the card of the tag')
        self.assertEqual(self.text('.card h2').replace('Large', '').strip(), 'x/' + EVIL)
        self.browser.wait("return document.querySelector('.readout').textContent.includes('onerror')", 'the name of the run')
        for key in '234567':
            self.look_at(key)
        self.browser.wait("return document.getElementById('log-text').textContent.includes('onerror')", 'the log')
        self.assertIsNone(self.browser.run('return window.pwned ?? null'))
        self.assertEqual(self.browser.run("return document.querySelectorAll('script').length"), 4)
        problems = [entry['message'] for entry in self.browser.call('POST', '/se/log', {'type': 'browser'}) if entry['level'] == 'SEVERE']
        self.assertEqual(problems, [])

    def test_nothing_comes_from_elsewhere(self):
        names = self.browser.run("return performance.getEntriesByType('resource').map((e) => e.name)")
        self.assertTrue(names)
        self.assertEqual([name for name in names if not name.startswith((self.url, 'data:'))], [])

    def test_keys(self):
        self.browser.press('j')
        self.browser.press('\ue007')
        self.browser.wait("return document.querySelector('.card.large')", 'a large curve')
        self.browser.press('l')
        self.assertTrue(self.browser.run("return document.getElementById('log-scale').checked"))
        self.browser.press('+')
        self.assertEqual(self.browser.run("return document.getElementById('smooth').value"), '3')
        self.browser.press('x')
        self.browser.wait("return document.getElementById('curve-note').textContent.includes('x_axis: BOTH')", 'no iterations')
        self.browser.press('x')
        self.assertEqual(self.browser.run("return document.getElementById('x-axis').value"), 'seconds')
        self.browser.press('/')
        self.browser.press('loss')
        self.browser.wait("return document.querySelectorAll('.card').length === 1", 'one card')
        self.browser.press('\ue00c')
        self.browser.press('?')
        self.assertTrue(self.browser.run("return document.getElementById('help').open"))

    def test_a_run_that_writes_is_drawn_at_once(self):
        with open(os.path.join(self.folder, 'dqn', 'log', 'metrics.csv'), 'a') as file:
            file.write('130000,evaluator_step/reward_mean,12345,1700000070\n')
        self.browser.wait("return document.querySelector('.readout').textContent.includes('12.35k')", 'the new value')

    def test_other_views(self):
        self.browser.press('2')
        self.browser.wait("return document.querySelector('#stages .bar')", 'stages')
        self.assertIn('learn', self.text('#stages'))
        self.browser.press('3')
        self.browser.wait("return document.querySelector('#videos img')?.complete", 'a video')
        self.assertEqual(self.browser.run("return document.querySelector('#videos img').naturalWidth"), 1)
        self.browser.press('4')
        self.browser.wait("return document.querySelector('#config-table td')", 'configs')
        self.assertIn('lr', self.text('#config-table'))
        self.browser.press('5')
        self.browser.wait("return document.getElementById('log-text').textContent.includes('last line')", 'a log')
        self.browser.run("document.getElementById('log-filter').value = 'LAST'; document.getElementById('log-filter').oninput()")
        self.browser.wait("return document.getElementById('log-text').textContent === 'last line'", 'the filtered log')

    def test_the_time_line_has_the_faults_before_many_other_events(self):
        line = json.dumps({'time': 1.7e9 + 50, 'event': 'evaluation', 'text': 'x'}, separators=(',', ':')) + '\n'
        with open(os.path.join(self.folder, 'ppo_0', 'log', 'events.jsonl'), 'a') as file:
            file.write(1500 * line)
        self.browser.press('6')
        self.browser.wait("return document.querySelector('.workers + .workers')", 'the time lines')
        lanes = self.browser.run("""return [...document.querySelectorAll('.workers')]
            .find((box) => box.querySelector('h2').textContent === 'ppo_0').innerText""")
        self.assertIn('fault 1\n', lanes)
        self.assertRegex(lanes, r'evaluation (999|1000)')
        self.assertIn('fault of <script>', lanes)

    def test_contrast_in_both_themes(self):
        for theme in ('light', 'dark'):
            if self.browser.run('return document.documentElement.dataset.theme') != theme:
                self.browser.press('t')
            for key in '1234567':
                self.look_at(key)
                self.assertEqual(self.browser.run(CONTRASTS), [], f'{theme} {key}')
            self.browser.picture(f'{theme}_histograms.png')
            self.look_at('1')
            self.browser.picture(f'{theme}_median.png')

    def test_phone(self):
        self.browser.resize(390, 800)
        self.browser.go(self.url)
        self.browser.wait("return document.querySelector('.card canvas')", 'a curve')
        for key in '1234567':
            self.look_at(key)
            self.assertLessEqual(self.browser.run('return document.documentElement.scrollWidth'), 390, key)
            self.browser.picture(f'phone_{key}.png')


class OperateTest(unittest.TestCase):
    """A parallel run that lives, and a page that takes orders."""

    TOKEN = 'f' * 64

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix='operate_test.')
        cls.run_folder = os.path.join(cls.folder, 'run')
        cls.programs = []
        cls.run_program = cls.start(
            [PARALLEL, '--config=worker/configs/cartpole_dqn_parallel_fast.textproto', '--set', 'env.stop_value=1e9', f'--exp_dir={cls.run_folder}'])
        address = cls.wait_for(lambda: cls.read('coordinator', 'address'), 'an address')
        cls.start([PARALLEL, '--role=collector', f'--coordinator={address.strip()}', f'--name={NAME}'])
        tokens = os.path.join(cls.folder, 'tokens')
        with open(os.open(tokens, os.O_CREAT | os.O_WRONLY, 0o600), 'w') as file:
            file.write(f'operator {cls.TOKEN}\n')
        watch = cls.start([WATCH, f'--run={cls.run_folder}', '--http=127.0.0.1:0', f'--token_file={tokens}'], subprocess.PIPE)
        cls.url = watch.stdout.readline().split()[-1]
        cls.browser = Browser(os.path.join(cls.folder, '.profile'))

    @classmethod
    def tearDownClass(cls):
        cls.browser.close()
        for program in reversed(cls.programs):
            if program.poll() is None:
                program.terminate()
            program.wait(TIMEOUT)
            if program.stdout:
                program.stdout.close()
        shutil.rmtree(cls.folder, ignore_errors=True)

    @classmethod
    def start(cls, command, stdout=subprocess.DEVNULL):
        cls.programs.append(subprocess.Popen(command, stdout=stdout, stderr=subprocess.DEVNULL, text=True))
        return cls.programs[-1]

    @classmethod
    def read(cls, *names):
        try:
            with open(os.path.join(cls.run_folder, *names)) as file:
                return file.read()
        except FileNotFoundError:
            return ''

    @staticmethod
    def wait_for(condition, what):
        deadline = time.monotonic() + TIMEOUT
        while time.monotonic() < deadline:
            value = condition()
            if value:
                return value
            time.sleep(0.05)
        raise Failed(f'not seen: {what}')

    def give_token(self, token):
        self.browser.run("document.getElementById('order-token').value = arguments[0]; document.getElementById('order-confirm').click()", token)

    def open_order(self, name):
        self.browser.run("document.querySelector('.orders [data-order=\"0 ' + arguments[0] + ' \"]').click()", name)
        self.assertTrue(self.browser.run("return document.getElementById('order').open"))

    def test_workers_time_line_and_an_order(self):
        self.browser.resize(1280, 900)
        # The browser keeps the password for what the page asks.
        self.browser.go(self.url.replace('http://', f'http://me:{self.TOKEN}@'))
        self.browser.go(self.url)
        self.browser.press('6')
        workers = "document.querySelector('.workers table')?.innerText"
        for name in ('learner-0', 'collector-1', NAME):
            self.browser.wait(f'return {workers}?.includes({json.dumps(name)})', name)
        self.browser.wait(f"return /learner_task_0\\s+\\d/.test({workers})", 'the task and the rate of the learner')
        self.browser.wait(f"return /collector_task_\\d+\\s[^\\n]*\\/s\\s+\\d+\\s+\\d\\.\\d s/.test({workers})", 'staleness and lease of a collector')
        leases = self.browser.run('''return [...document.querySelectorAll('.workers meter[aria-label*="lease"]')].map((meter) => [meter.value, meter.max])''')
        self.assertEqual(len(leases), 4, 'a learner and three collectors')
        self.assertTrue(all(0 < left <= lease == 5 for left, lease in leases), leases)
        self.browser.wait('''return document.querySelector('.workers meter[aria-label="how full it is"]')?.value > 0''', 'a buffer that fills')
        self.browser.wait("return document.querySelectorAll('.lane circle').length > 3", 'a time line')
        self.assertIsNone(self.browser.run('return window.pwned ?? null'))
        self.assertEqual(self.browser.run("return document.querySelectorAll('#workers script, #workers img').length"), 0)
        for theme in ('light', 'dark'):
            if self.browser.run('return document.documentElement.dataset.theme') != theme:
                self.browser.press('t')
            self.assertEqual(self.browser.run(CONTRASTS), [], theme)
            hidden = self.browser.run("return [...document.querySelectorAll('.workers .scroll')].map((box) => box.scrollWidth - box.clientWidth)")
            self.assertLessEqual(max(hidden), 0, 'all columns are seen')
            self.browser.picture(f'{theme}_workers.png')
        self.browser.resize(390, 800)
        self.assertLessEqual(self.browser.run('return document.documentElement.scrollWidth'), 390)
        self.browser.picture('phone_workers.png')

        self.open_order('stop')
        self.browser.run("document.getElementById('order-cancel').click()")
        self.open_order('stop')
        self.browser.picture('phone_order.png')
        ordered = "return performance.getEntriesByType('resource').some((entry) => entry.name.includes('api/order'))"
        self.assertFalse(self.browser.run(ordered), 'sent before it was confirmed')
        self.give_token('e' * 64)
        self.browser.wait("return document.getElementById('order-answer').textContent.includes('operator')", 'a wrong token')
        self.assertEqual(self.read('coordinator', 'orders.jsonl'), '')
        self.assertTrue(self.browser.run(ordered))
        self.give_token(self.TOKEN)
        self.browser.wait("return document.getElementById('order-note').textContent.includes('the run ends')", 'the answer')
        self.assertEqual(self.run_program.wait(TIMEOUT), 0)
        orders = [json.loads(line) for line in self.read('coordinator', 'orders.jsonl').splitlines()]
        self.assertEqual([(order['who'], order['from'], order['order'], order.get('done')) for order in orders],
                         [('operator', '127.0.0.1', 'stop', None), ('operator', '127.0.0.1', 'stop', True)])


if __name__ == '__main__':
    unittest.main(verbosity=1)
