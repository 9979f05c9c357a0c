#include "ding_worker/worker/run_folder/run_result.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"

namespace ding {

namespace {

// How far it came, and the last evaluation.
template <typename Result>
void AddProgress(const Result& result, nlohmann::ordered_json* json) {
  (*json)["stop"] = result.stop;
  (*json)["env_step"] = result.env_step;
  (*json)["train_iter"] = result.train_iter;
  (*json)["eval_value"] = result.eval_value ? nlohmann::json(*result.eval_value) : nlohmann::json();
  (*json)["eval_value_raw"] = result.eval_value_raw;
}

// A name that is not UTF-8 must not end the program.
std::string Print(const nlohmann::ordered_json& json) {
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

// Shortens lists of numbers.
void Shorten(nlohmann::ordered_json* json) {
  constexpr size_t kShown = 5;
  if (json->is_array() && json->size() > kShown && json->front().is_primitive()) {
    const size_t more = json->size() - kShown;
    json->erase(json->begin() + kShown, json->end());
    json->push_back(absl::StrCat("... ", more, " more"));
  } else if (json->is_structured()) {
    for (nlohmann::ordered_json& element : *json) Shorten(&element);
  }
}

}  // namespace

std::string ToJson(const RunResult& result) {
  nlohmann::ordered_json json;
  AddProgress(result, &json);
  json["why"] = result.why;
  if (!result.unsaved.empty()) json["unsaved"] = result.unsaved;
  if (result.confirmation.has_value()) {
    json["confirmation"] = {{"episodes", result.confirmation->episodes},
                            {"mean", result.confirmation->mean},
                            {"standard_error", result.confirmation->standard_error}};
  }
  for (const PolicyResult& policy : result.policies) {
    nlohmann::ordered_json of_policy = {{"policy", policy.policy_id}};
    AddProgress(policy, &of_policy);
    json["policies"].push_back(std::move(of_policy));
  }
  for (const auto& [name, value] : result.metric) json["metric"][name] = value;
  json["wall_seconds"] = result.wall_seconds;
  if (result.collecting_seconds) json["collecting_seconds"] = *result.collecting_seconds;
  json["finish_time"] =
      absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", result.finish_time, absl::UTCTimeZone());
  return Print(json);
}

std::string ShortenJson(absl::string_view json) {
  nlohmann::ordered_json shortened =
      nlohmann::ordered_json::parse(json.begin(), json.end(), nullptr, /*allow_exceptions=*/false);
  if (shortened.is_discarded()) return std::string(json);
  Shorten(&shortened);
  return Print(shortened);
}

}  // namespace ding
