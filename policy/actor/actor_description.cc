#include "ding_worker/policy/actor/actor_description.h"

#include <cmath>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/status_macros.h"
#include "nlohmann/json.hpp"

namespace ding {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kMaxDepth = 8;

absl::Status Malformed(absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("the description of the actor: ", what));
}

// Reads members of an object; the first problem stays.
class Members {
 public:
  Members(const Json& object, absl::string_view where) : object_(object), where_(where) {
    if (!object_.is_object()) Fail("", "an object");
  }

  const absl::Status& status() const { return status_; }
  bool Has(const char* name) const { return object_.is_object() && object_.contains(name); }
  // Null if it is missing; that is a problem.
  const Json* Find(const char* name) {
    if (Has(name)) return &object_[name];
    Fail(name, "it to exist");
    return nullptr;
  }
  std::string Text(const char* name) {
    const Json* const member = Find(name);
    if (member != nullptr && member->is_string()) return member->get<std::string>();
    Fail(name, "a text");
    return "";
  }
  int64_t Count(const char* name) {
    const Json* const member = Find(name);
    if (member != nullptr && member->is_number_unsigned()) return member->get<int64_t>();
    Fail(name, "a count");
    return 0;
  }
  double Number(const char* name) {
    const Json* const member = Find(name);
    if (member != nullptr && member->is_number()) return member->get<double>();
    Fail(name, "a number");
    return 0;
  }
  bool Flag(const char* name) {
    const Json* const member = Find(name);
    if (member != nullptr && member->is_boolean()) return member->get<bool>();
    Fail(name, "true or false");
    return false;
  }
  // Returns the index of the text among `choices`.
  template <size_t n>
  size_t Choice(const char* name, const char* const (&choices)[n]) {
    const std::string text = Text(name);
    std::string expected;
    for (size_t i = 0; i < n; ++i) {
      if (text == choices[i]) return i;
      absl::StrAppend(&expected, i == 0 ? "" : " or ", "'", choices[i], "'");
    }
    Fail(name, expected);
    return 0;
  }
  std::vector<Json> List(const char* name) {
    const Json* const member = Find(name);
    if (member != nullptr && member->is_array()) return {member->begin(), member->end()};
    Fail(name, "a list");
    return {};
  }
  void Fail(absl::string_view name, absl::string_view expected) {
    if (!status_.ok()) return;
    const std::string key(name);
    const std::string found = !object_.is_object() ? object_.dump()
                              : Has(key.c_str())   ? object_[key].dump()
                                                   : "nothing";
    status_ = Malformed(
        absl::StrCat("'", where_, name, "' is ", found.substr(0, 60), ", expected ", expected));
  }

 private:
  const Json& object_;
  const std::string where_;
  absl::Status status_;
};

constexpr const char* kActivations[] = {"relu", "tanh"};
constexpr const char* kCells[] = {"lstm", "gru"};
constexpr const char* kSchedules[] = {"exp", "linear"};
constexpr const char* kDistributions[] = {"atoms", "quantiles", "fractions"};
constexpr int64_t kMaxDistributionSize = 4096;

Json NetworkToJson(const ActorDescription& description) {
  const MlpOptions& mlp = description.mlp;
  Json network = {{"encoder_hidden_size", mlp.encoder_hidden_size},
                  {"activation", kActivations[static_cast<int>(mlp.activation)]},
                  {"head_hidden_size", mlp.head_hidden_size},
                  {"head_layer_num", mlp.head_layer_num},
                  {"dueling", mlp.dueling}};
  for (const ConvOptions& conv : description.conv) {
    network["conv"].push_back({{"channels", conv.channels},
                               {"kernel", conv.kernel},
                               {"stride", conv.stride},
                               {"padding", conv.padding}});
  }
  if (description.recurrent.has_value()) {
    network["recurrent"] = {{"cell", kCells[static_cast<int>(description.recurrent->cell)]},
                            {"hidden_size", description.recurrent->hidden_size}};
  }
  return network;
}

absl::Status ReadNetwork(const Json& json, ActorDescription* description) {
  Members network(json, "network.");
  for (const Json& width : network.List("encoder_hidden_size")) {
    if (!width.is_number_unsigned()) {
      network.Fail("encoder_hidden_size", "widths");
      break;
    }
    description->mlp.encoder_hidden_size.push_back(width.get<int64_t>());
  }
  description->mlp.activation =
      static_cast<MlpOptions::Activation>(network.Choice("activation", kActivations));
  description->mlp.head_hidden_size = network.Count("head_hidden_size");
  description->mlp.head_layer_num = network.Count("head_layer_num");
  description->mlp.dueling = network.Flag("dueling");
  if (network.Has("conv")) {
    for (const Json& item : network.List("conv")) {
      Members conv(item, "network.conv.");
      description->conv.push_back({conv.Count("channels"), conv.Count("kernel"),
                                   conv.Count("stride"), conv.Count("padding")});
      DING_RETURN_IF_ERROR(conv.status());
    }
  }
  if (network.Has("recurrent")) {
    Members recurrent(*network.Find("recurrent"), "network.recurrent.");
    description->recurrent = {static_cast<RnnCell>(recurrent.Choice("cell", kCells)),
                              recurrent.Count("hidden_size")};
    DING_RETURN_IF_ERROR(recurrent.status());
  }
  return network.status();
}

absl::StatusOr<Schedule> ReadSchedule(const Json& json) {
  Members members(json, "exploration.");
  Schedule schedule;
  schedule.kind = static_cast<ScheduleKind>(members.Choice("type", kSchedules));
  schedule.start = members.Number("start");
  schedule.end = members.Number("end");
  schedule.decay = members.Number("decay");
  const auto probability = [](double value) { return value >= 0 && value <= 1; };
  if (!probability(schedule.start)) members.Fail("start", "a probability");
  if (!probability(schedule.end)) members.Fail("end", "a probability");
  if (!(schedule.decay > 0)) members.Fail("decay", "a number above 0");
  DING_RETURN_IF_ERROR(members.status());
  return schedule;
}

Json DistributionToJson(const ActorDescription::Distribution& distribution) {
  Json json = {{"kind", kDistributions[static_cast<int>(distribution.kind)]},
               {"size", distribution.size}};
  if (distribution.kind == ActorDescription::Distribution::Kind::kAtoms) {
    json["v_min"] = distribution.v_min;
    json["v_max"] = distribution.v_max;
  }
  if (distribution.kind == ActorDescription::Distribution::Kind::kFractions) {
    json["cosines"] = distribution.cosines;
  }
  if (distribution.noisy) json["noisy"] = true;
  return json;
}

absl::StatusOr<ActorDescription::Distribution> ReadDistribution(const Json& json) {
  using Kind = ActorDescription::Distribution::Kind;
  Members members(json, "distribution.");
  ActorDescription::Distribution distribution;
  distribution.kind = static_cast<Kind>(members.Choice("kind", kDistributions));
  distribution.size = members.Count("size");
  const int64_t least = distribution.kind == Kind::kAtoms ? 2 : 1;
  if (distribution.size < least || distribution.size > kMaxDistributionSize) {
    members.Fail("size", absl::StrCat("a count in ", least, "..", kMaxDistributionSize));
  }
  if (distribution.kind == Kind::kAtoms) {
    distribution.v_min = members.Number("v_min");
    distribution.v_max = members.Number("v_max");
    const bool in_order = distribution.v_min < distribution.v_max;
    if (!in_order || !std::isfinite(distribution.v_max - distribution.v_min)) {
      members.Fail("v_max", "a number above v_min");
    }
  }
  if (distribution.kind == Kind::kFractions) {
    distribution.cosines = members.Count("cosines");
    if (distribution.cosines < 1 || distribution.cosines > kMaxLayerWidth) {
      members.Fail("cosines", absl::StrCat("a count in 1..", kMaxLayerWidth));
    }
  }
  if (members.Has("noisy")) distribution.noisy = members.Flag("noisy");
  DING_RETURN_IF_ERROR(members.status());
  return distribution;
}

absl::Status CheckVersion(const Json& json) {
  Members members(json, "");
  const int64_t version = members.Count("version");
  DING_RETURN_IF_ERROR(members.status());
  if (version != kActorDescriptionVersion) {
    return absl::FailedPreconditionError(
        absl::StrCat("the description of the actor has version ", version, ", expected ",
                     kActorDescriptionVersion, ": use the version that trained the policy"));
  }
  if (!members.Has("problem")) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "no actor can play it: ", members.Text("problem"),
      ". Use ding::SavedPolicy with the program's own targets (docs/how_to/use_a_policy.md)"));
}

}  // namespace

std::string ActorDescriptionToJson(const ActorDescription& description) {
  Json json = {{"version", kActorDescriptionVersion},
               {"policy", description.policy},
               {"parameters", description.parameters},
               {"network", NetworkToJson(description)},
               {"head", description.head}};
  if (!description.unused_outputs.empty()) json["unused_outputs"] = description.unused_outputs;
  if (description.distribution.has_value()) {
    json["distribution"] = DistributionToJson(*description.distribution);
  }
  if (description.exploration.has_value()) {
    const Schedule& schedule = *description.exploration;
    json["exploration"] = {{"type", kSchedules[static_cast<int>(schedule.kind)]},
                           {"start", schedule.start},
                           {"end", schedule.end},
                           {"decay", schedule.decay}};
  }
  if (description.obs_clip.has_value()) json["obs_clip"] = *description.obs_clip;
  return json.dump();
}

std::string ActorProblemToJson(absl::string_view problem) {
  const Json json = {{"version", kActorDescriptionVersion}, {"problem", std::string(problem)}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

absl::StatusOr<ActorDescription> ActorDescriptionFromJson(absl::string_view text) {
  bool too_deep = false;
  const auto limit = [&](int depth, Json::parse_event_t /*event*/, Json& /*parsed*/) {
    too_deep = too_deep || depth > kMaxDepth;
    return !too_deep;
  };
  const Json json = Json::parse(text.begin(), text.end(), limit, /*allow_exceptions=*/false);
  if (too_deep || json.is_discarded()) return Malformed("it is no JSON text");
  DING_RETURN_IF_ERROR(CheckVersion(json));
  Members members(json, "");
  ActorDescription description;
  description.policy = members.Text("policy");
  description.parameters = members.Text("parameters");
  description.head = members.Text("head");
  const Json* const network = members.Find("network");
  if (members.Has("unused_outputs")) {
    for (const Json& name : members.List("unused_outputs")) {
      if (name.is_string()) {
        description.unused_outputs.push_back(name.get<std::string>());
      } else {
        members.Fail("unused_outputs", "texts");
      }
    }
  }
  if (description.head == kQDistributionHead) {
    const Json* const distribution = members.Find("distribution");
    DING_RETURN_IF_ERROR(members.status());
    DING_ASSIGN_OR_RETURN(description.distribution, ReadDistribution(*distribution));
  }
  if (members.Has("exploration")) {
    DING_ASSIGN_OR_RETURN(description.exploration, ReadSchedule(*members.Find("exploration")));
  }
  if (members.Has("obs_clip")) {
    description.obs_clip = members.Number("obs_clip");
    if (!(*description.obs_clip > 0)) members.Fail("obs_clip", "a number above 0");
  }
  DING_RETURN_IF_ERROR(members.status());
  DING_RETURN_IF_ERROR(ReadNetwork(*network, &description));
  return description;
}

}  // namespace ding
