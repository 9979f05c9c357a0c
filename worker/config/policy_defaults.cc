#include "ding_worker/worker/config/policy_defaults.h"

#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/types/span.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/env/env.h"
#include "ding_worker/env/env_registry.h"
#include "ding_worker/policy/policy.pb.h"
#include "ding_worker/policy/policy_registry.h"
#include "ding_worker/replay_buffer/buffer.pb.h"
#include "ding_worker/worker/config/experiment_config.h"
#include "ding_worker/worker/config/text_config.h"
#include "ding_worker/worker/config/type_choices.h"
#include "google/protobuf/any.pb.h"
#include "google/protobuf/descriptor.h"

namespace ding {
namespace {

using google::protobuf::Any;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

// Whether `config` sets all fields that the first saved configs had, as only a resolved one does.
bool IsResolved(const ExperimentConfig& config) {
  const PolicySection& policy = config.policy();
  return config.has_seed() && config.has_max_env_step() && config.has_max_train_iter() &&
         config.env().has_stop_value() && config.env().has_collector_env_num() &&
         policy.has_priority() && policy.has_discount_factor() && policy.has_nstep() &&
         policy.has_random_collect_size() && policy.learn().has_update_per_collect() &&
         policy.learn().has_batch_size() && policy.learn().has_resume_training() &&
         policy.eval().evaluator().has_eval_freq();
}

bool IsNetwork(const FieldDescriptor& field) {
  return field.message_type() == NetworkConfig::descriptor();
}

// Whether `message` sets a field that is taken whole with `field`, or with the oneof that it is in.
bool TakesWhole(const Message& message, const FieldDescriptor& field) {
  const Reflection& reflection = *message.GetReflection();
  if (IsNetwork(field)) {
    const google::protobuf::Descriptor& descriptor = *message.GetDescriptor();
    for (int i = 0; i < descriptor.field_count(); ++i) {
      const FieldDescriptor& other = *descriptor.field(i);
      if (IsNetwork(other) && !other.is_repeated() && reflection.HasField(message, &other)) {
        return true;
      }
    }
  }
  if (field.containing_type() == BufferConfig::descriptor() &&
      field.message_type() == Any::descriptor()) {
    return reflection.HasField(message, &field);
  }
  return field.containing_oneof() != nullptr && !reflection.HasField(message, &field) &&
         reflection.HasOneof(message, field.containing_oneof());
}

// Whether a config decides what the field is to which `steps` lead from `message`. A field that
// does not exist counts as not set, so that setting it reports it.
bool Decides(const Message& message, absl::Span<const std::string> steps) {
  if (const auto* const any = dynamic_cast<const Any*>(&message)) {
    const absl::StatusOr<std::unique_ptr<Message>> inner = UnpackAny(*any);
    return inner.ok() && Decides(**inner, steps);
  }
  const FieldDescriptor* const field = message.GetDescriptor()->FindFieldByName(steps[0]);
  if (field == nullptr) return false;
  const Reflection& reflection = *message.GetReflection();
  if (TakesWhole(message, *field)) return true;
  if (field->is_repeated()) return reflection.FieldSize(message, field) > 0;
  if (!reflection.HasField(message, field)) return false;
  return steps.size() == 1 || Decides(reflection.GetMessage(message, field), steps.subspan(1));
}

// Calls `see` with path and value of each "name: value" of a config that PrintTextConfig() wrote,
// and the place behind its line.
void ForEachValue(
    absl::string_view text,
    const std::function<void(const std::string& path, absl::string_view value, size_t end)>& see) {
  std::vector<std::string> names;  // of the messages that are open; "" for the content of an Any
  size_t end = 0;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    end += line.size();
    absl::string_view rest = absl::StripAsciiWhitespace(line);
    const size_t colon = rest.find(": ");
    if (rest == "}") {
      names.pop_back();
    } else if (absl::ConsumeSuffix(&rest, " {")) {
      names.emplace_back(absl::StartsWith(rest, "[") ? "" : rest);
    } else if (colon != absl::string_view::npos) {
      names.emplace_back(rest.substr(0, colon));
      std::vector<absl::string_view> path;
      for (const std::string& name : names) {
        if (!name.empty()) path.push_back(name);
      }
      see(absl::StrJoin(path, "."), rest.substr(colon + 2), end);
      names.pop_back();
    }
    ++end;
  }
}

// The kind of actions of the config's env; kAny if it cannot be made.
ActionKind FindActionKind(const ExperimentConfig& config) {
  EnvsUse use;
  use.probes = true;
  const absl::StatusOr<std::unique_ptr<EnvManager>> env =
      create_envs(MakeEnvConfig(config), config.env().manager(), 1, Clock::Real(), use);
  if (!env.ok()) return ActionKind::kAny;
  const EnvSpec player = PlayerSpec((*env)->env_spec());
  return player.action->field(0).num_categories > 0 ? ActionKind::kDiscrete
                                                    : ActionKind::kContinuous;
}

// How often one collects, learns and evaluates.
constexpr absl::string_view kRates[] = {
    "policy.collect.n_sample", "policy.collect.unroll_len", "policy.learn.update_per_collect",
    "policy.random_collect_size", "policy.eval.evaluator.eval_freq"};

// Whether the config sets a rate by which the others of kRates have to go, or does not collect.
bool SetsRates(const ExperimentConfig& config) {
  const PolicySection& policy = config.policy();
  return IsSupervised(config) || policy.collect().amount_case() != CollectSection::AMOUNT_NOT_SET ||
         policy.collect().has_unroll_len() || policy.learn().has_update_per_collect();
}

// Sets those of `defaults` that are for this kind of actions in `config`.
std::vector<std::string> Apply(const std::vector<PolicyDefault>& defaults, ActionKind actions,
                               ExperimentConfig* config) {
  const ExperimentConfig given = *config;
  const bool sets_rates = SetsRates(given);
  const BufferConfig& buffer = given.policy().other().replay_buffer();
  const bool sets_buffer = buffer.has_type() || buffer.has_params();
  std::vector<std::string> other_types;  // paths of messages for which the config chooses a type
  std::vector<std::string> problems;
  for (const PolicyDefault& line : defaults) {
    if (line.actions != ActionKind::kAny && line.actions != actions) continue;
    bool holds = !Decides(given, std::vector<std::string>(absl::StrSplit(line.path, '.')));
    for (const std::string& message : other_types) holds &= !IsWithinField(line.path, message);
    holds &= !(sets_rates && absl::c_linear_search(kRates, line.path));
    holds &= !(sets_buffer && line.path == "policy.priority");
    if (holds) {
      const absl::Status set = SetByPath(line.path, line.value, config);
      if (set.ok()) continue;
      problems.push_back(
          absl::StrCat("a default of policy '", given.policy().type(), "': ", set.message()));
    } else if (absl::string_view message = line.path; absl::ConsumeSuffix(&message, ".type")) {
      ExperimentConfig same = given;
      const bool is_same = SetByPath(line.path, line.value, &same).ok() &&
                           same.SerializeAsString() == given.SerializeAsString();
      if (!is_same) other_types.emplace_back(message);
    }
  }
  return problems;
}

}  // namespace

std::vector<PolicyDefault> ListPolicyDefaults(absl::string_view type) {
  const absl::StatusOr<const char*> text = PolicyDefaultsRegistry().Find(type);
  std::vector<PolicyDefault> defaults;
  constexpr absl::string_view kParams = "policy.params";
  ActionKind actions = ActionKind::kAny;
  for (absl::string_view line : absl::StrSplit(text.ok() ? *text : "", '\n')) {
    line = absl::StripAsciiWhitespace(line);
    if (line == "[discrete]") actions = ActionKind::kDiscrete;
    if (line == "[continuous]") actions = ActionKind::kContinuous;
    if (absl::ConsumePrefix(&line, "[as ")) {
      const std::pair<absl::string_view, absl::string_view> base =
          absl::StrSplit(absl::StripSuffix(line, "]"), absl::MaxSplits(": ", 1));
      if (base.first == type) continue;
      for (PolicyDefault& default_of_base : ListPolicyDefaults(base.first)) {
        if (IsWithinField(default_of_base.path, kParams)) {
          default_of_base.path.replace(0, kParams.size(), std::string(base.second));
        }
        defaults.push_back(std::move(default_of_base));
      }
      continue;
    }
    if (line.empty() || line[0] == '[') continue;
    const std::pair<absl::string_view, absl::string_view> parts =
        absl::StrSplit(line, absl::MaxSplits("  # ", 1));
    const std::pair<absl::string_view, absl::string_view> setting =
        absl::StrSplit(parts.first, absl::MaxSplits('=', 1));
    defaults.push_back({std::string(setting.first), std::string(setting.second),
                        std::string(parts.second), actions});
  }
  return defaults;
}

std::vector<std::string> ApplyPolicyDefaults(ExperimentConfig* config) {
  const std::vector<PolicyDefault> defaults = ListPolicyDefaults(config->policy().type());
  // Params of another message are reported, and take no defaults.
  if (defaults.empty() || IsResolved(*config) || !FindWrongParams(*config).empty()) return {};
  bool asks = false;
  for (const PolicyDefault& line : defaults) asks |= line.actions != ActionKind::kAny;
  asks &= !config->env().type().empty() && !IsSupervised(*config);
  return Apply(defaults, asks ? FindActionKind(*config) : ActionKind::kAny, config);
}

PolicyDefaultValues::PolicyDefaultValues(absl::string_view type) {
  const std::vector<PolicyDefault> defaults = ListPolicyDefaults(type);
  for (const ActionKind actions : {ActionKind::kDiscrete, ActionKind::kContinuous}) {
    ExperimentConfig config;
    config.mutable_policy()->set_type(std::string(type));
    Apply(defaults, actions, &config);
    ForEachValue(PrintTextConfig(config),
                 [&](const std::string& path, absl::string_view value, size_t) {
                   const std::string* source = nullptr;  // The last line decides.
                   for (const PolicyDefault& line : defaults) {
                     const bool fits = line.actions == ActionKind::kAny || line.actions == actions;
                     if (fits && line.path == path) source = &line.source;
                   }
                   if (source != nullptr) values_.push_back({path, std::string(value), *source});
                 });
  }
}

const std::string* PolicyDefaultValues::FindSource(absl::string_view path,
                                                   absl::string_view value) const {
  for (const Value& known : values_) {
    if (known.path == path && known.value == value) return &known.source;
  }
  return nullptr;
}

std::vector<std::string> DefaultsInError(const ExperimentConfig& config, absl::string_view error) {
  const std::string& type = config.policy().type();
  const PolicyDefaultValues defaults(type);
  std::vector<std::string> found;
  ForEachValue(
      PrintTextConfig(config), [&](const std::string& path, absl::string_view value, size_t) {
        const std::string* const source = defaults.FindSource(path, value);
        if (source == nullptr || !absl::StrContains(error, path.substr(path.rfind('.') + 1)))
          return;
        found.push_back(absl::StrCat(path, ": ", value, " is a default of policy '", type, "' (",
                                     *source, ")"));
      });
  return found;
}

std::string PrintConfigWithSources(const ExperimentConfig& config) {
  const PolicyDefaultValues defaults(config.policy().type());
  std::string text = PrintTextConfig(config);
  std::vector<std::pair<size_t, std::string>> comments;
  ForEachValue(text, [&](const std::string& path, absl::string_view value, size_t end) {
    const std::string* const source = defaults.FindSource(path, value);
    if (source == nullptr) return;
    comments.emplace_back(end,
                          absl::StrCat("  # default of ", config.policy().type(), ": ", *source));
  });
  for (auto it = comments.rbegin(); it != comments.rend(); ++it) text.insert(it->first, it->second);
  return text;
}

}  // namespace ding
