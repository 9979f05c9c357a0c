"""Pages that show what the public headers declare: a page for each folder, a block of code for each header.

A block is the header as it is, with its comments, but without include guards, includes, private members and function bodies of several
lines.
"""

import os
import re

import check_api

TOKEN = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)\'|\n *(public|protected|private):(?!:)|[{};]|[^/"\'{};\n]+|.', re.S)
# What of the preprocessor users need not read; a macro that is not an include guard stays.
PREPROCESSOR = re.compile(r'^#(ifndef DING_WORKER_|define DING_WORKER_|endif|include |if |ifdef |else|undef )[^\n]*\n', re.M)
NAMESPACE = re.compile(r'^((inline )?namespace ding \{|\}  // namespace ding)\n', re.M)


def is_function(head):
    return '(' in head and not re.search(r'\b(class|struct|enum|union|namespace)\b[^()]*$|=\s*$', head)


def public_part(text):
    """The text of a header without what its users need not read."""
    shown = []
    head = ''  # code since the last declaration or block
    depth = 0
    hidden = None  # the depth of the class or namespace whose rest is left out
    body = None  # the depth and the place in `shown` of a function's body
    in_namespace = False  # `hidden` is a namespace, of which nothing is shown
    for token in TOKEN.finditer(NAMESPACE.sub('', PREPROCESSOR.sub('', text))):
        piece = token[0]
        if piece[0] in '"\'' or piece.startswith(('//', '/*')):
            head += ' '
        elif token[1]:
            if hidden in (None, depth) and body is None:
                hidden = depth if token[1] == 'private' else None
                head = ''
        elif piece == '{':
            if hidden is None and re.search(r'\bnamespace internal\w* $', head):
                shown[-1] = re.sub(r'(inline )?namespace internal\w* $', '', shown[-1])
                hidden = depth + 1
                in_namespace = True
            elif body is None and is_function(head):
                body = (depth, len(shown))
            depth += 1
            head = ''
        elif piece == '}':
            depth -= 1
            head = ''
            if hidden is not None and depth < hidden:
                hidden = None
                if in_namespace:
                    in_namespace = False
                    continue
                shown.append('\n')
            if body is not None and depth == body[0]:
                if hidden is None and '\n' in ''.join(shown[body[1]:]):
                    shown[body[1]:] = ['{ ... ']
                body = None
        elif piece == ';':
            head = ''
        else:
            head += piece
        if hidden is None:
            shown.append(piece)
    code = re.sub(r'  // namespace internal\w*', '', ''.join(shown))
    return re.sub(r'\n{3,}', '\n\n', re.sub(r'[ \t]+\n', '\n', code)).strip('\n')


def labels_of_headers():
    """The labels of the public targets that have a header: path -> labels."""
    labels = {}
    with open(check_api.TARGETS, encoding='utf-8') as file:
        for line in file:
            if line.startswith('//'):
                label = line.strip()
            elif line.startswith(' '):
                labels.setdefault(line.strip(), []).append(label)
    return labels


def pages():
    """The pages as (folder, text), in the order of the folders. The current folder is the root of the checkout."""
    labels = labels_of_headers()
    texts = {}
    for header in check_api.public_headers():
        with open(header, encoding='utf-8') as file:
            code = public_part(file.read())
        texts.setdefault(os.path.dirname(header), []).append('## %s\n\n%s\n\n```cpp\n%s\n```\n' % (
            os.path.basename(header), ', '.join('`%s`' % label for label in labels[header]), code))
    return [(folder, '# %s\n\nInclude a header as `"ding_worker/%s/<header>"`.\n\n%s' % (folder, folder, '\n'.join(text)))
            for folder, text in sorted(texts.items())]
