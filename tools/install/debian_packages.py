"""Debian packages of an installation: one per top folder of ding_worker, libding-worker-<folder>-dev.

A package holds the headers and libraries of its folder and the pkg-config and CMake files of its modules, and depends on the packages
of the folders and of the distribution that its modules need. Equal input gives equal bytes.
"""

import collections
import os
import shutil
import subprocess
import sys
import tempfile

# Whose headers and libraries must be of one release: C++ libraries that promise no more.
SAME_RELEASE = ('libabsl-dev', 'libprotobuf-dev')
# The package of this folder holds what belongs to no module: every other one depends on it.
COMMON = 'base'


def run(command, **kwargs):
    try:
        return subprocess.run(command, check=True, stdout=subprocess.PIPE, universal_newlines=True, **kwargs).stdout.strip()
    except FileNotFoundError:
        sys.exit("install: '%s' is missing, which makes Debian packages. Install it: apt-get install dpkg" % command[0])
    except subprocess.CalledProcessError as error:
        sys.exit("install: '%s' ended with status %d" % (' '.join(command), error.returncode))


def libdir():
    """Where Debian has libraries of this architecture, below /usr."""
    if shutil.which('dpkg-architecture'):
        return 'lib/' + run(['dpkg-architecture', '--query', 'DEB_HOST_MULTIARCH'])
    return 'lib/%s-linux-gnu' % os.uname().machine


def package_name(group):
    return 'libding-worker-%s-dev' % group.replace('_', '-')


def group_of_header(header):
    return header.split('/')[1]


def outside_dependency(package):
    """The dependency on a package of the distribution, at least as new as the one that is installed."""
    version = run(['dpkg-query', '--show', '--showformat=${Version}', package])
    upstream = version.rsplit('-', 1)[0]
    if package in SAME_RELEASE:
        # "1.2." is newer than every revision of 1.2 and older than 1.2.1.
        return '%s (>= %s), %s (<< %s.)' % (package, upstream, package, upstream)
    return '%s (>= %s)' % (package, upstream)


def control_text(group, version, architecture, dependencies, size, modules):
    maintainer = '%s <%s>' % (os.environ.get('DEBFULLNAME', 'ding_worker'), os.environ.get('DEBEMAIL', 'root@localhost'))
    lines = [
        'Package: ' + package_name(group),
        'Version: ' + version,
        'Architecture: ' + architecture,
        'Section: libdevel',
        'Priority: optional',
        'Maintainer: ' + maintainer,
        'Installed-Size: %d' % size,
    ]
    if dependencies:
        lines.append('Depends: ' + ', '.join(dependencies))
    lines += ['Description: modules of ding_worker: ' + group, ' Headers and static libraries for C++17 programs. Modules:']
    lines += ['  ' + name for name in sorted(modules)]
    return '\n'.join(lines) + '\n'


class Group:
    """What the package of one top folder holds and needs."""

    def __init__(self):
        self.headers, self.libraries, self.modules = set(), set(), set()
        self.groups, self.outside = set(), set()


def groups_of(installation):
    groups = collections.defaultdict(Group)
    for header in installation.headers:
        groups[group_of_header(header)].headers.add(header)
    for library in installation.libraries:
        groups[installation.manifest['libraries'][library]['group']].libraries.add(library)
    for name, module in installation.modules.items():
        group = groups[module['group']]
        group.modules.add(name)
        group.groups |= {group_of_header(header) for header in module['headers']}
        group.groups |= {installation.manifest['libraries'][library]['group'] for library in module['libraries']}
        group.outside |= set(module['outside'])
    for name, group in groups.items():
        group.groups.add(COMMON)
        group.groups.discard(name)
    return groups


def build(installation, place, license_file):
    """Writes the packages into the folder `place` and returns their paths."""
    os.makedirs(place, exist_ok=True)
    architecture = run(['dpkg', '--print-architecture'])
    paths = []
    for name, group in sorted(groups_of(installation).items()):
        with tempfile.TemporaryDirectory() as root:
            # Whatever this process's umask is, others may read what is installed.
            os.chmod(root, 0o755)
            usr = root + '/usr'
            for header in group.headers:
                installation.write_header(usr, header)
            for library in group.libraries:
                installation.write_library(usr, library)
            for module in group.modules:
                installation.write_module(usr, module)
            if name == COMMON:
                installation.write_config(usr)
            documents = '%s/share/doc/%s' % (usr, package_name(name))
            os.makedirs(documents)
            shutil.copyfile(license_file, documents + '/copyright')
            size = 0
            for folder, _, files in os.walk(usr):
                os.chmod(folder, 0o755)
                for file in files:
                    os.chmod(os.path.join(folder, file), 0o644)
                    size += os.path.getsize(os.path.join(folder, file))
            dependencies = ['%s (= %s)' % (package_name(other), installation.version) for other in sorted(group.groups)]
            dependencies += [outside_dependency(package) for package in sorted(group.outside)]
            os.mkdir(root + '/DEBIAN', 0o755)
            with open(root + '/DEBIAN/control', 'w', encoding='utf-8') as file:
                size_in_kib = -(-size // 1024)
                file.write(
                    control_text(name, installation.version, architecture, dependencies, size_in_kib, group.modules))
            os.chmod(root + '/DEBIAN/control', 0o644)
            path = '%s/%s_%s_%s.deb' % (place, package_name(name), installation.version, architecture)
            # The time of the files in it: any that is always the same.
            environment = dict(os.environ, SOURCE_DATE_EPOCH=os.environ.get('SOURCE_DATE_EPOCH', '315532800'))
            run(['dpkg-deb', '--build', '--root-owner-group', root, path], env=environment)
            paths.append(path)
    return paths
