"""Lists what the package can run:  python -m ding_worker"""

import textwrap

import ding_worker


def main():
    print(ding_worker.__doc__.split("\n\n")[0])
    try:
        from ding_worker._extension import _core
    except ImportError as error:
        print(f"\n{error}")
        return
    print("\nready config: ding_worker.train(\"NAME\")")
    print(textwrap.fill(" ".join(ding_worker.ready_configs()), 120, initial_indent="  ", subsequent_indent="  "))
    for kind, use in (("policy", 'train("NAME", env="CartPole-v1")'), ("env", 'make_vec("NAME", num_envs=8)'), ("buffer", 'create_buffer({"type": "NAME"})'), ("env wrapper", None)):
        print(f"\n{kind}" + (f": ding_worker.{use}" if use else ", for make_vec(..., wrappers=[\"NAME\"])"))
        for name, text in _core.entries_of_kind(kind).items():
            print(f"  {name:28} {text}")


if __name__ == "__main__":
    main()
