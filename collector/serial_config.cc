#include "ding_worker/collector/serial_config.h"

#include "absl/strings/str_cat.h"
#include "ding_worker/base/problems.h"

namespace ding {

void ReadSerialCollectorOptions(const SerialCollectorConfig& config,
                                SerialCollectorOptions* options) {
  options->collect_print_freq = config.collect_print_freq();
  options->max_abnormal = config.max_abnormal();
}

void ReadSerialEvaluatorOptions(const SerialEvaluatorConfig& config,
                                SerialEvaluatorOptions* options) {
  if (config.has_eval_freq()) options->eval_freq = config.eval_freq();
  options->n_episode = config.n_episode();
  options->stop_value = config.stop_value();
  options->max_abnormal = config.max_abnormal();
}

template <typename Config>
void ReadSerialParams(const Config& config, google::protobuf::Message* params,
                      std::vector<std::string>* problems) {
  if (!config.has_params()) return;
  if (params == nullptr) {
    problems->push_back(
        absl::StrCat("params are given, but type '", config.type(), "' has none of its own"));
  } else if (!config.params().UnpackTo(params)) {
    problems->push_back(absl::StrCat("params is '", config.params().type_url(), "', expected ",
                                     params->GetDescriptor()->full_name()));
  }
}

template void ReadSerialParams(const SerialCollectorConfig&, google::protobuf::Message*,
                               std::vector<std::string>*);
template void ReadSerialParams(const SerialEvaluatorConfig&, google::protobuf::Message*,
                               std::vector<std::string>*);

absl::Status SerialProblemsToStatus(std::vector<std::string> problems,
                                    const std::vector<std::string>& option_problems,
                                    absl::string_view where) {
  if (problems.empty()) return absl::OkStatus();
  problems.insert(problems.end(), option_problems.begin(), option_problems.end());
  return ProblemsToStatus(problems, where);
}

}  // namespace ding
