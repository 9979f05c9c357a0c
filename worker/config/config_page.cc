#include "ding_worker/worker/config/config_page.h"

#include <map>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/worker/config/config_help.h"
#include "ding_worker/worker/config/config_tree.h"
#include "ding_worker/worker/config/proto_comments.h"
#include "ding_worker/worker/config/text_config.h"
#include "ding_worker/worker/experiment.pb.h"
#include "google/protobuf/descriptor.h"

namespace ding {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;

constexpr char kHead[] = R"(# Fields of an experiment config

Every field that a config (`worker/configs/*.textproto`) may have, and every type of the programs of this repository. `--help_config` of a
program prints the same for the types that it has, also for modules of your own; `--help_config=policy.learn` prints a part of it, and
`--list_modules` the types alone. `--set policy.learn.batch_size=128` changes a field for one run.

- A field that is not set has its default. A field without one says what happens then, or that it is required.
- `params` hold the message that the type beside them takes, with its full name: `params { [type.googleapis.com/ding.DqnConfig] { ... } }`.
  `--set policy.params.eps.end=0.05` needs neither the name nor params that are set.
- Runs: `all` kinds of runs use the field, or the ones that are named: serial runs of off-policy and of on-policy policies,
  supervised runs (with a data set), parallel runs, leagues, and `evaluate`, which reads the config of a checkpoint. A run that
  refuses a field refuses any value but its default, and names the field. A field in params is used where its type is.

This page is made of the comments of the .proto files, the registries and `worker/config_fields.txt` by
`DING_PRINT_DOCS=1 bazel-bin/worker/config_page_test`, which `//worker:config_page_test` checks.
)";

// Text for Markdown: '<' outside of backquotes would begin HTML.
std::string Escape(absl::string_view text) {
  std::string escaped;
  bool is_code = false;
  for (const char c : text) {
    if (c == '`') is_code = !is_code;
    absl::StrAppend(&escaped, c == '<' && !is_code ? "&lt;" : std::string(1, c));
  }
  return escaped;
}

// A cell of a table.
std::string Cell(const std::string& text) {
  return absl::StrReplaceAll(Escape(text), {{"|", "\\|"}});
}

std::string Code(absl::string_view text) {
  return text.empty() ? "" : absl::StrCat("`", text, "`");
}

// A link to the section about the fields of a message, whose heading is its name.
std::string LinkTo(const std::string& name) {
  const std::string anchor =
      absl::AsciiStrToLower(absl::StrReplaceAll(name, {{".", ""}, {"<", ""}, {">", ""}}));
  return absl::StrCat("[`", name, "`](#", anchor, ")");
}

class Page {
 public:
  explicit Page(const ConfigNode& tree) {
    FindFirst(tree);
    Append(tree);
  }

  const std::string& text() const { return text_; }

 private:
  // Notes where each message appears first: its fields are in a table there, and elsewhere is a link.
  void FindFirst(const ConfigNode& node) {
    if (node.message != nullptr && !first_.emplace(node.message, node.name).second) return;
    for (const ConfigNode& inner : node.inside) FindFirst(inner);
  }

  // Appends the sections about the messages in `node`.
  void Append(const ConfigNode& node) {
    if (node.message != nullptr && first_.at(node.message) != node.name) return;
    if (node.message != nullptr) AppendSection(node);
    for (const ConfigNode& inner : node.inside) Append(inner);
  }

  void AppendSection(const ConfigNode& node) {
    absl::StrAppend(&text_, "\n## ", node.name.empty() ? "The whole config" : Code(node.name),
                    "\n\n");
    if (!node.types.empty()) {
      absl::StrAppend(&text_, "The params of ", node.types.size() == 1 ? "type " : "types ",
                      absl::StrJoin(node.types, ", ",
                                    [](std::string* out, const std::string& type) {
                                      absl::StrAppend(out, "`", type, "`");
                                    }),
                      ": a `", node.message->full_name(), "`.\n\n");
    }
    const std::string about = CommentOf(*node.message);
    if (!about.empty()) absl::StrAppend(&text_, Escape(about), "\n\n");
    if (!node.types.empty()) {
      absl::StrAppend(&text_, "```textproto\n", ExampleOfParams(node), "\n```\n\n");
    }
    absl::StrAppend(&text_,
                    "| field | value | default | meaning | runs |\n|---|---|---|---|---|\n");
    for (const ConfigNode& inner : node.inside) AppendRow(inner);
    for (const ConfigNode& inner : node.inside) AppendTypes(inner);
  }

  void AppendRow(const ConfigNode& node) {
    const FieldDescriptor& field = *node.field;
    std::string meaning = DescribeMeaning(field);
    if (node.message != nullptr) {
      absl::StrAppend(&meaning, meaning.empty() ? "" : " ",
                      "Its fields: ", LinkTo(first_.at(node.message)), ".");
    }
    absl::StrAppend(&text_, "| ", Code(field.name()), " | ", Cell(DescribeKind(field)), " | ",
                    Cell(Code(DefaultText(field))), " | ", Cell(meaning), " | ",
                    Cell(DescribeUse(node)), " |\n");
  }

  // Appends a table of the types that the field chooses from.
  void AppendTypes(const ConfigNode& node) {
    const std::vector<RegistryEntry> types = TypesOf(*node.field);
    if (types.empty()) return;
    absl::StrAppend(&text_, "\n| ", Code(node.name), " | | params |\n|---|---|---|\n");
    for (const RegistryEntry& type : types) {
      const std::string params =
          type.params == nullptr ? "" : absl::StrCat("`", type.params()->full_name(), "`");
      absl::StrAppend(&text_, "| `", type.name, "` | ", Cell(type.help), " | ", params, " |\n");
    }
  }

  std::string text_;
  std::map<const Descriptor*, std::string> first_;  // the names of the nodes
};

}  // namespace

std::string ConfigPage() {
  return absl::StrCat(kHead, Page(MakeConfigTree(*ExperimentConfig::descriptor())).text());
}

}  // namespace ding
