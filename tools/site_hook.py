"""A hook of mkdocs, after which pages look as on GitHub: lists and tables may stand right below a line of text, a list in a list
is indented by two spaces, and the places of headings have GitHub's names."""

import html
import re

BEGIN = re.compile(r'([-*] |\d+\. |\|)')
ITEM = re.compile(r' *([-*] |\d+\. )')


def anchor(heading, separator):
    return re.sub(r'[^\w\- ]', '', html.unescape(heading).lower()).replace(' ', separator)


def on_config(config):
    config['mdx_configs']['toc']['slugify'] = anchor


def on_page_markdown(markdown, **_):
    lines = []
    fenced = False
    in_list = False
    for line in markdown.split('\n'):
        if line.lstrip().startswith('```'):
            fenced = not fenced
        begin = BEGIN.match(line)
        if begin and not fenced and lines and lines[-1].strip() and not (in_list and ITEM.match(line)) and not (
                begin[1] == '|' and lines[-1].startswith('|')):
            lines.append('')
        if ITEM.match(line):
            in_list = True
            line = line[:len(line) - len(line.lstrip())] + line  # Python-Markdown indents twice as far
        elif not line.strip() or line[:1] not in (' ', ''):
            in_list = False
        lines.append(line)
    return '\n'.join(lines)
