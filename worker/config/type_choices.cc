#include "ding_worker/worker/config/type_choices.h"

#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "google/protobuf/any.pb.h"

namespace ding {
namespace {

using google::protobuf::Any;
using google::protobuf::Descriptor;
using google::protobuf::DescriptorPool;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::MessageFactory;
using google::protobuf::Reflection;

constexpr absl::string_view kParams = "params";

// "evaluator_" of the field "evaluator_params"; `params` ends with "params".
std::string PrefixOf(const FieldDescriptor& params) {
  return std::string(absl::StripSuffix(params.name(), kParams));
}

// The full name of the message that `any` names, such as "ding.DqnConfig"; empty if `any` is empty.
std::string TypeNameOfAny(const Any& any) {
  const size_t slash = any.type_url().rfind('/');
  return slash == std::string::npos ? any.type_url() : any.type_url().substr(slash + 1);
}

// Appends what FindWrongParams() says about `message`, to which `path` leads; it is empty or ends
// with a dot.
void AppendWrong(const Message& message, const std::string& path,
                 std::vector<std::string>* problems) {
  if (const auto* const any = dynamic_cast<const Any*>(&message)) {
    const absl::StatusOr<std::unique_ptr<Message>> inner = UnpackAny(*any);
    if (inner.ok()) AppendWrong(**inner, path, problems);
    return;
  }
  const Reflection& reflection = *message.GetReflection();
  std::vector<const FieldDescriptor*> fields;
  reflection.ListFields(message, &fields);
  for (const FieldDescriptor* const field : fields) {
    if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE || field->is_map()) continue;
    const std::string place = absl::StrCat(path, field->name());
    for (int i = 0; field->is_repeated() && i < reflection.FieldSize(message, field); ++i) {
      AppendWrong(reflection.GetRepeatedMessage(message, field, i),
                  absl::StrCat(place, "[", i, "]."), problems);
    }
    if (field->is_repeated()) continue;
    const Message& inner = reflection.GetMessage(message, field);
    AppendWrong(inner, absl::StrCat(place, "."), problems);
    const auto* const any = dynamic_cast<const Any*>(&inner);
    if (any == nullptr || any->type_url().empty()) continue;
    // What the type does not say, and types that this program does not have, are for the factories
    // to refuse.
    const absl::StatusOr<const Descriptor*> taken = FindParamsMessage(message, *field);
    if (!taken.ok() || *taken == nullptr || *taken == TypeOfAny(*any)) continue;
    const FieldDescriptor* const type = FindTypeField(*field);
    problems->push_back(absl::StrCat(place, " hold a ", TypeNameOfAny(*any), ", expected a ",
                                     (*taken)->full_name(), " for type '",
                                     reflection.GetString(message, type), "'; --set '", place,
                                     "={}' leaves them out"));
  }
}

}  // namespace

const std::vector<TypeChoice>& TypeChoices() {
  static const auto* const kChoices = new std::vector<TypeChoice>{
      {"ding.EnvSection", "type", {"env"}},
      {"ding.EnvSection", "evaluator_type", {"env"}},
      {"ding.EvalOpponentConfig", "evaluator_type", {"env"}},
      {"ding.EnvWrapperConfig", "type", {"env wrapper"}},
      {"ding.EnvManagerConfig", "type", {"env manager"}},
      {"ding.PolicySection", "type", {"policy"}},
      {"ding.OpponentSection", "type", {"policy"}},
      {"ding.NetworkConfig", "type", {"network"}},
      {"ding.FieldScheduleConfig", "type", {"schedule"}},
      {"ding.LossConfig", "type", {"loss"}},
      {"ding.BufferConfig", "type", {"buffer"}},
      {"ding.SelectorConfig", "type", {"selector"}},
      {"ding.RemoverConfig", "type", {"remover"}},
      {"ding.SerialCollectorConfig", "type", {"serial collector", "battle collector"}},
      {"ding.EpisodeCollectorParams", "reward_shaping", {"reward shaping"}},
      {"ding.SampleCollectorParams", "reward_shaping", {"reward shaping"}},
      {"ding.ParallelCollectorConfig", "reward_shaping", {"reward shaping"}},
      {"ding.SerialEvaluatorConfig", "type", {"serial evaluator", "battle evaluator"}},
      {"ding.MetricEvaluatorConfig", "type", {"metric evaluator"}},
      {"ding.MetricEvaluatorConfig", "metric", {"metric"}},
      {"ding.LearnerConfig", "type", {"learner"}},
      {"ding.LearnerHookConfig", "type", {"learner hook"}},
      {"ding.StopperConfig", "type", {"stopper"}},
      {"ding.SinkConfig", "type", {"sink"}},
      {"ding.ParallelCollectorConfig", "type", {"parallel collector"}},
      {"ding.CommanderConfig", "type", {"commander"}},
      {"ding.SystemSection", "comm_collector_type", {"comm collector"}},
      {"ding.SystemSection", "comm_learner_type", {"comm learner"}},
  };
  return *kChoices;
}

const TypeChoice* FindTypeChoice(const FieldDescriptor& field) {
  for (const TypeChoice& choice : TypeChoices()) {
    if (choice.message == field.containing_type()->full_name() && choice.field == field.name()) {
      return &choice;
    }
  }
  return nullptr;
}

const FieldDescriptor* FindTypeField(const FieldDescriptor& params) {
  if (params.cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE ||
      params.message_type() != Any::descriptor() || !absl::EndsWith(params.name(), kParams)) {
    return nullptr;
  }
  const FieldDescriptor* const field =
      params.containing_type()->FindFieldByName(absl::StrCat(PrefixOf(params), "type"));
  return field == nullptr || FindTypeChoice(*field) == nullptr ? nullptr : field;
}

std::vector<RegistryEntry> EntriesOfChoice(const TypeChoice& choice) {
  std::vector<RegistryEntry> entries;
  for (const absl::string_view kind : choice.kinds) {
    for (RegistryEntry& entry : EntriesOfKind(kind)) entries.push_back(std::move(entry));
  }
  return entries;
}

absl::StatusOr<const Descriptor*> FindParamsMessage(const Message& message,
                                                    const FieldDescriptor& params) {
  const FieldDescriptor* const type = FindTypeField(params);
  return FindParamsMessage(
      type == nullptr ? std::string() : message.GetReflection()->GetString(message, type), params);
}

absl::StatusOr<const Descriptor*> FindParamsMessage(absl::string_view name,
                                                    const FieldDescriptor& params) {
  const FieldDescriptor* const type = FindTypeField(params);
  if (type == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat(params.name(),
                     " is empty, and no type says which message it holds: write the message "
                     "as {[type.googleapis.com/my.Message] {...}}"));
  }
  const TypeChoice& choice = *FindTypeChoice(*type);
  const std::string kinds = absl::StrJoin(choice.kinds, " or ");
  if (name.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(params.name(), " is empty, and ", type->name(),
                                                   ", the name of the ", kinds,
                                                   ", is not set: set it first"));
  }
  std::vector<std::string> names;
  for (const RegistryEntry& entry : EntriesOfChoice(choice)) {
    if (entry.name == name) return entry.params == nullptr ? nullptr : entry.params();
    names.push_back(entry.name);
  }
  return absl::InvalidArgumentError(
      absl::StrCat(params.name(), " is empty, and there is no ", kinds, " type '", name,
                   "' that would say which message it holds; this program has: ",
                   names.empty() ? "none" : absl::StrJoin(names, ", ")));
}

std::vector<std::string> FindWrongParams(const Message& config) {
  std::vector<std::string> problems;
  AppendWrong(config, "", &problems);
  return problems;
}

std::unique_ptr<Message> NewMessage(const Descriptor& descriptor) {
  return std::unique_ptr<Message>(
      MessageFactory::generated_factory()->GetPrototype(&descriptor)->New());
}

const Descriptor* TypeOfAny(const Any& any) {
  return DescriptorPool::generated_pool()->FindMessageTypeByName(TypeNameOfAny(any));
}

absl::StatusOr<std::unique_ptr<Message>> UnpackAny(const Any& any) {
  const std::string name = TypeNameOfAny(any);
  const Descriptor* const descriptor = TypeOfAny(any);
  if (descriptor == nullptr) {
    return absl::InvalidArgumentError(
        name.empty()
            ? std::string("params is empty")
            : absl::StrCat("params is of type '", name, "', which this program does not know"));
  }
  std::unique_ptr<Message> message = NewMessage(*descriptor);
  if (!message->ParseFromString(any.value())) {
    return absl::InvalidArgumentError(absl::StrCat("its content is not a valid ", name));
  }
  return message;
}

}  // namespace ding
