#include "ding_worker/env/env_manager_config.h"

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "ding_worker/base/params.h"
#include "ding_worker/base/status_macros.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"

namespace ding {
namespace {

constexpr std::array<absl::string_view, 8> kKeysOfAll = {
    "type",       "episode_num",        "max_retry",          "retry_type",
    "auto_reset", "retry_waiting_time", "max_abnormal_steps", "not_finite"};
constexpr char kWaitsForSome[] = "async_subprocess";
constexpr int kDefaultWaitNum = 2;

template <typename Keys>
bool Has(const Keys& keys, absl::string_view key) {
  return std::find(keys.begin(), keys.end(), key) != keys.end();
}

// Whether the field has its default value: in a config whose defaults were filled in, all fields
// are set.
bool IsDefault(const EnvManagerConfig& config, const google::protobuf::FieldDescriptor& field) {
  using google::protobuf::FieldDescriptor;
  if (!field.has_default_value()) return false;
  const google::protobuf::Reflection& reflection = *config.GetReflection();
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return reflection.GetInt32(config, &field) == field.default_value_int32();
    case FieldDescriptor::CPPTYPE_INT64:
      return reflection.GetInt64(config, &field) == field.default_value_int64();
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return reflection.GetDouble(config, &field) == field.default_value_double();
    default:
      return false;
  }
}

}  // namespace

absl::Status ReadEnvManagerConfig(const EnvManagerConfig& config,
                                  const std::vector<absl::string_view>& own_keys,
                                  EnvManagerCore::Options* options) {
  std::vector<std::string> problems;
  CheckRanges(config, "", &problems);
  DING_RETURN_IF_ERROR(ProblemsToStatus(problems, "env manager"));
  const auto refuse_timeout = [&](absl::string_view key, double seconds) {
    if (seconds == 0 || Has(own_keys, key)) return;
    problems.push_back(absl::StrCat(
        key, " is ", seconds, ", expected 0: type '", config.type(),
        "' runs envs in threads of this process and cannot interrupt them; only a manager that "
        "runs them in sub-processes can"));
  };
  refuse_timeout("step_timeout", config.step_timeout());
  refuse_timeout("reset_timeout", config.reset_timeout());
  std::vector<const google::protobuf::FieldDescriptor*> set;
  config.GetReflection()->ListFields(config, &set);
  for (const google::protobuf::FieldDescriptor* const field : set) {
    const absl::string_view key = field->name();
    if (Has(kKeysOfAll, key) || Has(own_keys, key)) continue;
    if (key == "step_timeout" || key == "reset_timeout" || key == "params") continue;
    if (IsDefault(config, *field)) continue;
    problems.push_back(absl::StrCat(
        key, " is set, but type '", config.type(), "' does not have it; besides the common fields ",
        own_keys.empty() ? "it has none" : absl::StrCat("it has ", absl::StrJoin(own_keys, ", "))));
  }
  ReadParams(config, /*params=*/nullptr, &problems);
  DING_RETURN_IF_ERROR(ProblemsToStatus(problems, "env manager"));
  options->episode_num = config.episode_num();
  options->max_retry = config.max_retry();
  options->retry_type =
      config.retry_type() == EnvManagerConfig::RENEW ? EnvRetryType::kRenew : EnvRetryType::kReset;
  options->auto_reset = config.auto_reset();
  options->retry_waiting_time = absl::Seconds(config.retry_waiting_time());
  options->max_abnormal_steps = config.max_abnormal_steps();
  options->drop_not_finite = config.not_finite() == EnvManagerConfig::ABNORMAL;
  return absl::OkStatus();
}

absl::StatusOr<SubprocessEnvManagerOptions> ReadSubprocessOptions(const EnvManagerConfig& config,
                                                                  int env_num) {
  const bool waits_for_some = config.type() == kWaitsForSome;
  std::vector<absl::string_view> keys = {"step_timeout", "reset_timeout", "envs_per_process",
                                         "memory_limit_mb", "connect_timeout"};
  if (waits_for_some) keys.push_back("wait_num");
  SubprocessEnvManagerOptions options;
  DING_RETURN_IF_ERROR(ReadEnvManagerConfig(config, keys, &options));
  options.envs_per_process = config.envs_per_process();
  options.memory_limit_mb = config.memory_limit_mb();
  options.step_timeout = absl::Seconds(config.step_timeout());
  options.reset_timeout = absl::Seconds(config.reset_timeout());
  options.connect_timeout = absl::Seconds(config.connect_timeout());
  if (waits_for_some) {
    options.wait_num =
        config.has_wait_num() ? config.wait_num() : std::min(kDefaultWaitNum, env_num);
  }
  return options;
}

}  // namespace ding
