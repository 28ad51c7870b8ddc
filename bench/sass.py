#!/usr/bin/env python3
"""sass.py: counts the instructions and memory accesses of the CUDA plugin's kernels
without a GPU, and estimates their speed (docs/gpu.md has the formula).

    bench/sass.py [--build FOLDER] [--arch 80,90,100] [CASE...]
    bench/sass.py --check FILE [CASE...]    exit status 1 if a count is worse than
                                            in FILE
    bench/sass.py --update FILE [CASE...]   writes the counts of these cases to
                                            FILE, and keeps the others

sass_cases.c calls Tenon on tests/sim/counting.c, a driver that runs a few thread
blocks of each launch and counts. ptxas reports the registers and shared memory of
each kernel. The program needs NVRTC, which the plugin finds, and ptxas: that of
TENON_CUDA_FOLDER or /usr/local/cuda, or the one in PATH.
"""
import argparse
import collections
import concurrent.futures
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile

# ---- the estimate: docs/gpu.md has the formula and the constants -------------

UNITS = 132           # number of multiprocessors of an H200
CLOCK = 1.755e9       # Hz
ISSUE = 4             # warp instructions that a multiprocessor issues in a
                      # clock
COPY = 4.1e12         # bytes/s of device memory, measured by a copy
CACHE = 4.5e12        # bytes/s of sectors between multiprocessors and L2
LATENCY = 700e-9      # duration of a load in s
FLIGHT = 4            # number of loads that a thread has in flight
LAUNCH = 2e-6         # duration of a launch in s
THREADS, REGISTERS, SHARED, BLOCKS = 2048, 65536, 227 << 10, 32


def resident(kernel, block):
    """Thread blocks that a multiprocessor holds."""
    warps = -(-block // 32)
    registers = -(-kernel.registers * 32 // 256) * 256 * warps
    shared = kernel.shared + 1024
    return max(1, min(BLOCKS, THREADS // (warps * 32),
                      REGISTERS // registers, SHARED // shared))


def parts(launch, kernel):
    """The time of a launch by each limit, in seconds."""
    blocks = min(launch.grid, UNITS * resident(kernel, launch.block))
    memory = (launch.read + launch.write) / COPY
    cache = 32 * (launch.load_sectors + launch.store_sectors) / CACHE
    issue = launch.instructions * kernel.ratio / (
        min(launch.grid, UNITS) * ISSUE * CLOCK)
    # Loads of a thread, FLIGHT at a time
    waits = launch.loads * LATENCY / (FLIGHT * blocks * launch.block)
    return {'memory': memory, 'cache': cache, 'issue': issue, 'waits': waits}


def seconds(launch, kernel):
    return LAUNCH + max(parts(launch, kernel).values())


# ---- counts ------------------------------------------------------------------

Launch = collections.namedtuple(
    'Launch', 'module kernel grid block shared instructions loads load_bytes '
    'load_sectors stores store_bytes store_sectors read write')
Kernel = collections.namedtuple(
    'Kernel', 'registers spills shared size ratio')


def toolkit():
    return os.environ.get('TENON_CUDA_FOLDER', '/usr/local/cuda')


def find_ptxas():
    own = os.path.join(toolkit(), 'bin', 'ptxas')
    return own if os.access(own, os.X_OK) else shutil.which('ptxas')


def code_bytes(cubin):
    """Bytes of machine code in an ELF file: its sections .text.*"""
    data = open(cubin, 'rb').read()
    sections, = struct.unpack_from('<Q', data, 40)
    each, count, names = struct.unpack_from('<HHH', data, 58)
    head = [struct.unpack_from('<IIQQQQ', data, sections + each * i)
            for i in range(count)]
    total = 0
    for name, _, _, _, _, size in head:
        at = head[names][4] + name
        if data[at:at + 6] == b'.text.':
            total += size
    return total


def assemble(ptxas, text, arch):
    """A module's only kernel, by ptxas."""
    out = text.replace('.ptx', '.%d.cubin' % arch)
    said = subprocess.run([ptxas, '-v', '--fmad=false', '-arch=sm_%d' % arch,
                           text, '-o', out], capture_output=True, text=True)
    if said.returncode:
        sys.exit('sass.py: %s' % said.stderr)

    def number(pattern):
        found = re.search(pattern, said.stderr)
        return int(found.group(1)) if found else 0
    body = open(text).read()
    lines = len(re.findall(r'^\s+(?:@!?%p\d+ )?[a-z][\w.]*\s.*;|^\s+ret;',
                           body, re.M))
    size = code_bytes(out) // 16
    return Kernel(number(r'Used (\d+) registers'),
                  number(r'(\d+) bytes spill stores') +
                  number(r'(\d+) bytes spill loads'),
                  number(r'(\d+) bytes smem'), size, size / max(lines, 1))


class Missing(Exception):
    """A tool that a count needs is missing on this machine."""


class Case:
    """The launches of a case, bytes copied, products of cuBLASLt."""

    def __init__(self, elements, least):
        self.elements, self.least = elements, least
        self.launches, self.copied, self.products = [], 0, 0


def run_cases(build, folder, arch, cases):
    driver = os.path.join(build, 'tests', 'sim', 'counting')
    before = os.environ.get('LD_LIBRARY_PATH')
    environment = dict(
        os.environ, SASS_FOLDER=folder, SASS_ARCH=str(arch),
        LD_LIBRARY_PATH=driver + (':' + before if before else ''),
        TENON_CUDA_CODE='ptx', TENON_DEVICE='cuda',
        TENON_PLUGIN_PATH=os.path.join(build, 'tenon-1'))
    done = subprocess.run([os.path.join(build, 'bench', 'sass_cases')] + cases,
                          env=environment, stderr=subprocess.PIPE, text=True)
    if done.returncode and 'NVRTC' in done.stderr:
        raise Missing(done.stderr.strip())
    sys.stderr.write(done.stderr)
    if done.returncode:
        sys.exit(1)
    found, case = {}, None
    for line in open(os.path.join(folder, 'log.tsv')):
        field = line.rstrip('\n').split('\t')
        if field[0] == 'case':
            case = found[field[1]] = Case(int(field[2]), int(field[3]))
        elif field[0] == 'launch':
            case.launches.append(Launch(*field[1:3], *map(int, field[3:])))
        elif field[0] == 'copy':
            case.copied += int(field[1])
        else:
            case.products += 1
    del found['before'], found['after']
    return found


def counts(case, kernels, archs):
    """The counts of a case, for the tables and the test."""
    used = {a: {kernels[x.module, a] for x in case.launches} for a in archs}
    total = collections.Counter()
    for x in case.launches:
        total.update(x._asdict() | {'module': 0, 'kernel': 0})
    return {
        'launches': len(case.launches),
        'products': case.products,
        'registers': [max(k.registers for k in used[a]) for a in archs],
        'spills': [sum(k.spills for k in used[a]) for a in archs],
        'shared': max(k.shared for k in used[archs[0]]),
        'bytes a load': total['load_bytes'] / max(1, total['loads']),
        'instructions': total['instructions'] * 32,
        'sectors': 32 * (total['load_sectors'] + total['store_sectors']),
        'memory': total['read'] + total['write'] + case.copied,
    }


def of_archs(numbers):
    """One number if all are equal."""
    return ' '.join(map(str, numbers if len(set(numbers)) > 1
                        else numbers[:1]))


# Percent of a copy's bandwidth on an H200 (bench/cuda bandwidth, the second table in
# docs/gpu.md). In brackets: measured with kernels that have changed since.
MEASURED = {
    'clone': 92, 'add': 97, 'mul_scalar': 92, 'exp': 88, 'gelu': 86,
    'add row': 92, 'to float16': 96, 'sum': 72, 'sum rows': 95,
    'sum columns': 86.5, 'softmax': 80, 'log_softmax': 84, 'layer_norm': 75,
    'transpose': 96, 'cumsum rows': '(43)', 'softmax of 4 rows': '(37)',
    'sort of all': 3.8, 'sort of rows of 1024': 10, 'topk 100 of all': 3.5,
    'index_select': '(57)', 'index_add': 72, 'embedding, back': '(64)',
    'scatter_add': '(7.8)',
}


def tools_of(folder):
    """The version of NVRTC, on which counts depend."""
    with open(os.path.join(folder, '000.ptx')) as text:
        return re.search(r'release [\d.]+', text.read()).group(0)


def measure(build, ptxas, archs, cases):
    """Cases by name, kernels by module and architecture, NVRTC's version."""
    with tempfile.TemporaryDirectory() as folder:
        found = run_cases(os.path.abspath(build), folder, min(archs), cases)
        jobs = sorted({(x.module, a) for case in found.values()
                       for x in case.launches for a in archs})
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            made = list(pool.map(lambda j: assemble(
                ptxas, os.path.join(folder, j[0] + '.ptx'), j[1]), jobs))
        return found, dict(zip(jobs, made)), tools_of(folder)


HELD_ARCH = 90  # architecture whose counts --check and --update use
WORSE = 1.05


def worse(name, now, before):
    """A line for each count that has become worse."""
    for count, old in before.items():
        new = now[count]
        for x, y in zip(*[n if isinstance(n, list) else [n]
                          for n in (new, old)]):
            if count == 'bytes a load':
                x, y = y, x
            if x > y * WORSE:
                yield '%s: %s %s, was %s' % (name, count, new, old)


def check(path, found, tools):
    with open(path) as file:
        before = json.load(file)
    if before['tools'] != tools:
        print('skipped: %s is of NVRTC %s, this is %s' % (
            path, before['tools'], tools))
        return 0
    lines = []
    for name, now in found.items():
        if name in before['cases']:
            lines += worse(name, now, before['cases'][name])
        else:
            lines.append('%s: not in %s' % (name, path))
    print('\n'.join(lines or ['%d cases: no count is worse' % len(found)]))
    return 1 if lines else 0


def update(path, found, tools):
    cases = {}
    if os.path.exists(path):
        with open(path) as file:
            cases = json.load(file)['cases']
    with open(path, 'w') as file:
        cases.update(found)
        json.dump({'tools': tools, 'cases': cases}, file, indent=1)
        file.write('\n')
    return 0


def table(found, kernels, archs, launches):
    if any(case.least for case in found.values()):
        print('| case | launches | registers | spills | shared | '
              'bytes a load | instructions | sectors | memory | estimate | '
              'measured |')
        print('|---' * 11 + '|')
    rows = []
    for name, case in found.items():
        c = counts(case, kernels, archs)
        time = case.copied / COPY + sum(
            seconds(x, kernels[x.module, 90 if 90 in archs else archs[0]])
            for x in case.launches)
        if case.least:
            print('| %s | %d | %s | %s | %d | %.1f | %.1f | %.2f | %.2f | %.0f '
                  '| %s |' % (
                      name, c['launches'], of_archs(c['registers']),
                      of_archs(c['spills']), c['shared'], c['bytes a load'],
                      c['instructions'] / case.elements,
                      c['sectors'] / case.least, c['memory'] / case.least,
                      100 * case.least / COPY / time, MEASURED.get(name, '')))
        else:
            rows.append('| %s | %d | %d | %s | %s | %.2f | %.2f | %.2f |' % (
                name, c['launches'], c['products'], of_archs(c['registers']),
                of_archs(c['spills']), c['memory'] / 1e9, c['sectors'] / 1e9,
                1e3 * time))
        for x in case.launches if launches else []:
            k = kernels[x.module, archs[-1]]
            print('    %s %s: %d x %d, %d registers, %d shared, us: %s' % (
                x.module, x.kernel, x.grid, x.block, k.registers, k.shared,
                ' '.join('%s %.1f' % (limit, 1e6 * t)
                         for limit, t in parts(x, k).items())))
    if rows:
        print('\n| training step | launches | products | registers | spills | '
              'memory, GB | sectors, GB | estimate without products, ms |')
        print('|---' * 8 + '|')
        print('\n'.join(rows))


def run(asked):
    ptxas = find_ptxas()
    if not ptxas:
        raise Missing('no ptxas in %s/bin or PATH' % toolkit())
    held = asked.check or asked.update
    archs = [HELD_ARCH] if held else [int(x) for x in asked.arch.split(',')]
    found, kernels, tools = measure(
        asked.build, ptxas, archs,
        asked.case + ['-' + name for name in asked.without])
    if held:
        now = {name: counts(case, kernels, archs)
               for name, case in found.items()}
        return (check if asked.check else update)(held, now, tools)
    table(found, kernels, archs, asked.launches)
    return 0


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument('--build', default='.')
    parser.add_argument('--arch', default='80,90,100')
    parser.add_argument('--launches', action='store_true',
                        help='a line for each launch, too')
    parser.add_argument('--check', metavar='FILE')
    parser.add_argument('--update', metavar='FILE')
    parser.add_argument('--without', metavar='CASE', action='append',
                        default=[])
    parser.add_argument('case', nargs='*')
    asked = parser.parse_args()
    try:
        return run(asked)
    except Missing as missing:
        print('skipped: %s' % missing)
        return 0 if asked.check else 1


if __name__ == '__main__':
    sys.exit(main())
