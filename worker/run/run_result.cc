#include "ding_worker/worker/run/run_result.h"

#include "nlohmann/json.hpp"

namespace ding {

std::string ToJson(const RunResult& result) {
  nlohmann::ordered_json json;
  json["stop"] = result.stop;
  json["env_step"] = result.env_step;
  json["train_iter"] = result.train_iter;
  json["eval_value"] = result.eval_value ? nlohmann::json(*result.eval_value) : nlohmann::json();
  json["eval_value_raw"] = result.eval_value_raw;
  for (const auto& [name, value] : result.metric) json["metric"][name] = value;
  json["wall_seconds"] = result.wall_seconds;
  if (result.collecting_seconds) json["collecting_seconds"] = *result.collecting_seconds;
  json["finish_time"] =
      absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", result.finish_time, absl::UTCTimeZone());
  return json.dump();
}

}  // namespace ding
