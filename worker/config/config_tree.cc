#include "ding_worker/worker/config/config_tree.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/worker/config/text_parser.h"
#include "ding_worker/worker/config/type_choices.h"
#include "google/protobuf/any.pb.h"

namespace ding {
namespace {

using google::protobuf::Any;
using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;

constexpr size_t kMaxSuggestions = 8;

std::string Join(const std::string& before, absl::string_view name) {
  return absl::StrCat(before, before.empty() ? "" : ".", name);
}

class Builder {
 public:
  // Adds the fields of `node->message`.
  void AddFields(ConfigNode* node) {
    // A message that contains itself ends here.
    if (!around_.insert(node->message).second) return;
    for (int i = 0; i < node->message->field_count(); ++i) {
      const FieldDescriptor& field = *node->message->field(i);
      ConfigNode inner;
      inner.field = &field;
      inner.name = Join(node->name, field.name());
      inner.path = Join(node->path, field.name());
      const bool is_message =
          field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE && !field.is_map();
      if (is_message && field.message_type() == Any::descriptor()) {
        AddTypes(*node, &inner);
      } else if (is_message) {
        inner.message = field.message_type();
        if (field.is_repeated()) inner.path += "[0]";
        inner.opening = absl::StrCat(node->opening, field.name(), " { ");
        inner.blocks = node->blocks + 1;
        AddFields(&inner);
      }
      node->inside.push_back(std::move(inner));
    }
    around_.erase(node->message);
  }

 private:
  // Adds the messages of the types that the field beside `any` may choose.
  void AddTypes(const ConfigNode& parent, ConfigNode* any) {
    const FieldDescriptor* const type = FindTypeField(*any->field);
    if (type == nullptr) return;
    std::vector<const Descriptor*> messages;  // in the order of the types
    std::map<const Descriptor*, std::vector<std::string>> types;
    for (const RegistryEntry& entry : EntriesOfChoice(*FindTypeChoice(*type))) {
      if (entry.params == nullptr) continue;
      const Descriptor* const message = entry.params();
      if (types[message].empty()) messages.push_back(message);
      types[message].push_back(entry.name);
    }
    for (const Descriptor* const message : messages) {
      ConfigNode inner;
      inner.name = absl::StrCat(any->name, "<", message->name(), ">");
      inner.path = any->path;
      inner.message = message;
      inner.types = types[message];
      inner.is_repeated = !in_params_.insert(message).second;
      inner.opening = absl::StrCat(parent.opening, type->name(), ": \"", inner.types[0], "\" ",
                                   any->field->name(), " { [type.googleapis.com/",
                                   message->full_name(), "] { ");
      inner.blocks = parent.blocks + 2;
      AddFields(&inner);
      any->inside.push_back(std::move(inner));
    }
  }

  std::set<const Descriptor*> around_;
  std::set<const Descriptor*> in_params_;
};

// One part of a path: a field, and the message or the type that is asked for.
struct Step {
  std::string name, choice;
};

Step ParseStep(absl::string_view text) {
  text = text.substr(0, text.find('['));
  const std::pair<absl::string_view, absl::string_view> parts =
      absl::StrSplit(text, absl::MaxSplits('<', 1));
  return {std::string(parts.first), std::string(absl::StripSuffix(parts.second, ">"))};
}

// Splits at the dots that are not in "<...>".
std::vector<Step> ParsePath(absl::string_view path) {
  std::vector<Step> steps;
  int depth = 0;
  size_t begin = 0;
  for (size_t i = 0; i <= path.size(); ++i) {
    if (i < path.size()) depth += path[i] == '<' ? 1 : path[i] == '>' ? -1 : 0;
    if (i < path.size() && (path[i] != '.' || depth > 0)) continue;
    steps.push_back(ParseStep(path.substr(begin, i - begin)));
    begin = i + 1;
  }
  return steps;
}

bool IsChosen(const ConfigNode& node, const std::string& choice) {
  return choice.empty() || node.message->name() == choice || node.message->full_name() == choice ||
         std::find(node.types.begin(), node.types.end(), choice) != node.types.end();
}

// Appends the fields inside of `node` that a next step can name: those of all messages of an Any.
void AppendFields(const ConfigNode& node, std::vector<const ConfigNode*>* fields) {
  for (const ConfigNode& inner : node.inside) {
    if (node.is_any()) {
      AppendFields(inner, fields);
    } else {
      fields->push_back(&inner);
    }
  }
}

void AppendAll(const ConfigNode& node, std::vector<const ConfigNode*>* nodes) {
  nodes->push_back(&node);
  for (const ConfigNode& inner : node.inside) AppendAll(inner, nodes);
}

// Whether the params in `any` are those of a type which this program has under that name. Such a
// type has no node if it takes none.
bool HasType(const ConfigNode& any, const std::string& name) {
  const FieldDescriptor* const type = FindTypeField(*any.field);
  if (type == nullptr) return false;
  const std::vector<RegistryEntry> entries = EntriesOfChoice(*FindTypeChoice(*type));
  return std::any_of(entries.begin(), entries.end(),
                     [&](const RegistryEntry& entry) { return entry.name == name; });
}

// What one may have meant by the field `name` that none of `places` has.
std::string Suggest(const ConfigNode& root, const std::vector<const ConfigNode*>& places,
                    const std::string& name) {
  std::vector<const ConfigNode*> fields;
  for (const ConfigNode* const place : places) AppendFields(*place, &fields);
  std::vector<std::string> names;
  for (const ConfigNode* const field : fields) names.emplace_back(field->field->name());
  std::vector<const ConfigNode*> all;
  AppendAll(root, &all);
  std::vector<std::string> elsewhere;
  for (const ConfigNode* const node : all) {
    if (node->field != nullptr && node->field->name() == name) elsewhere.push_back(node->name);
  }
  const std::string near = NearestName(names, name);
  if (near.empty() && elsewhere.empty()) {  // a misspelt field of another message
    std::vector<std::string> all_names;
    for (const ConfigNode* const node : all) {
      if (node->field != nullptr) all_names.emplace_back(node->field->name());
    }
    const std::string other = NearestName(all_names, name);
    for (const ConfigNode* const node : all) {
      if (node->field != nullptr && node->field->name() == other) elsewhere.push_back(node->name);
    }
  }
  if (!near.empty()) return absl::StrCat("did you mean '", near, "'?");
  if (elsewhere.empty()) return absl::StrCat("it has: ", absl::StrJoin(names, ", "));
  const size_t shown = std::min(elsewhere.size(), kMaxSuggestions);
  const std::string more =
      shown == elsewhere.size() ? "" : absl::StrCat(" and ", elsewhere.size() - shown, " more");
  elsewhere.resize(shown);
  return absl::StrCat("did you mean ", absl::StrJoin(elsewhere, ", "), more, "?");
}

}  // namespace

bool ConfigNode::is_any() const {
  return field != nullptr && field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE &&
         field->message_type() == Any::descriptor();
}

ConfigNode MakeConfigTree(const Descriptor& root) {
  ConfigNode node;
  node.message = &root;
  Builder().AddFields(&node);
  return node;
}

absl::StatusOr<std::vector<const ConfigNode*>> FindConfigNodes(const ConfigNode& root,
                                                               absl::string_view path) {
  std::vector<const ConfigNode*> nodes = {&root};
  if (path.empty()) return nodes;
  std::string walked;
  for (const Step& step : ParsePath(path)) {
    std::vector<const ConfigNode*> next;
    std::vector<std::string> choices;  // that there are, if one is asked for
    bool takes_none = false;           // the one that is asked for
    std::vector<const ConfigNode*> fields;
    for (const ConfigNode* const node : nodes) AppendFields(*node, &fields);
    for (const ConfigNode* const field : fields) {
      if (field->field->name() != step.name) continue;
      if (step.choice.empty()) next.push_back(field);
      if (field->is_any() && HasType(*field, step.choice)) takes_none = true;
      for (const ConfigNode& choice : field->inside) {
        if (step.choice.empty() || !field->is_any()) continue;
        if (IsChosen(choice, step.choice)) next.push_back(&choice);
        choices.push_back(
            absl::StrCat(absl::StrJoin(choice.types, ", "), " (", choice.message->name(), ")"));
      }
    }
    const std::string where =
        walked.empty() ? "an experiment config" : absl::StrCat("'", walked, "'");
    if (next.empty() && !choices.empty()) {
      const std::string place = Join(walked, step.name);
      return absl::NotFoundError(absl::StrCat(
          takes_none ? absl::StrCat("type '", step.choice, "' takes no params in ", place)
                     : absl::StrCat("no type and no message '", step.choice, "' in ", place),
          "; there are: ", absl::StrJoin(choices, ", ")));
    }
    if (next.empty()) {
      return absl::NotFoundError(absl::StrCat("no field '", step.name, "' in ", where, "; ",
                                              Suggest(root, nodes, step.name)));
    }
    nodes = std::move(next);
    walked = Join(walked, step.name);
  }
  return nodes;
}

std::vector<const ConfigNode*> ListConfigValues(const ConfigNode& root) {
  std::vector<const ConfigNode*> values;
  if (root.field != nullptr && root.message == nullptr) values.push_back(&root);
  for (const ConfigNode& inner : root.inside) {
    if (inner.is_repeated) continue;
    for (const ConfigNode* const value : ListConfigValues(inner)) values.push_back(value);
  }
  return values;
}

}  // namespace ding
