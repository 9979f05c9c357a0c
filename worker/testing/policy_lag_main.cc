// What the age of the policies that collect costs an algorithm: the env steps to a bar, of serial
// and reproducible runs that act by the parameters of some versions ago (lagged_policy.h).
//
//   bazel run -c opt //worker/testing:policy_lag -- --lag=16 --v_trace=false
//
// It prints a line for each seed, and then the median. A run that does not reach the bar counts as
// one that takes longer than all others.
//
// Exit code: 0; 1 after an error.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/policy/policy.h"
#include "ding_worker/policy/policy.pb.h"
#include "ding_worker/policy/policy_registry.h"
#include "ding_worker/worker/config/experiment_config.h"
#include "ding_worker/worker/experiment.pb.h"
#include "ding_worker/worker/pipeline/pipeline.h"
#include "ding_worker/worker/pipeline/supervised_pipeline.h"
#include "ding_worker/worker/program/program.h"
#include "ding_worker/worker/run_folder/paths.h"
#include "ding_worker/worker/testing/lagged_policy.h"
#include "gflags/gflags.h"

DEFINE_string(config, "worker/configs/cartpole_impala.textproto", "experiment config");
DEFINE_int64(lag, 16, "versions that the acting policy is behind the learner");
DEFINE_bool(v_trace, true, "whether V-trace corrects for it; only for policy 'impala'");
DEFINE_int32(seeds, 5, "runs, with seeds 0, 1, ...");
DEFINE_double(bar, 450, "mean return of an evaluation that ends a run");

namespace ding {
namespace {

constexpr char kHelp[] =
    "policy_lag [--config=FILE] [--lag=N] [--v_trace=false] [--seeds=N] [--bar=RETURN] "
    "[--set PATH=VALUE ...]\n";

constexpr char kLagged[] = "lagged";

absl::StatusOr<SerialResult> Train(const std::vector<std::string>& settings) {
  DING_ASSIGN_OR_RETURN(const ExperimentConfig config,
                        LoadExperimentConfig(FLAGS_config, settings));
  std::string folder = "/tmp/policy_lag_XXXXXX";
  if (mkdtemp(folder.data()) == nullptr) {
    return absl::InternalError(absl::StrCat("cannot make a folder ", folder));
  }
  SerialOptions options;
  options.exp_dir = folder;
  absl::StatusOr<std::unique_ptr<Pipeline>> pipeline = CreatePipeline(config, options);
  SerialResult result;
  absl::Status status = pipeline.status();
  if (status.ok()) status = (*pipeline)->Run(&result);
  status.Update(RemoveRecursively(folder));
  if (!status.ok()) return status;
  return result;
}

absl::Status Measure(std::vector<std::string> settings) {
  if (FLAGS_seeds < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("--seeds is ", FLAGS_seeds, ", expected 1 or more"));
  }
  settings.push_back(absl::StrCat("env.stop_value=", FLAGS_bar));
  if (!FLAGS_v_trace) settings.push_back("policy.params.v_trace=false");
  DING_ASSIGN_OR_RETURN(const ExperimentConfig config,
                        LoadExperimentConfig(FLAGS_config, settings));
  const auto create = [type = config.policy().type()](
                          PolicyConfig policy,
                          const PolicyContext& context) -> absl::StatusOr<std::unique_ptr<Policy>> {
    policy.set_type(type);
    return CreateLaggedPolicy(policy, context, FLAGS_lag);
  };
  const ScopedRegistration<PolicyCreator> lagged(&PolicyRegistry(), kLagged, create);
  settings.push_back(absl::StrCat("policy.type=", kLagged));
  std::vector<std::pair<bool, int64_t>> results;  // whether it missed the bar, env steps
  for (int seed = 0; seed < FLAGS_seeds; ++seed) {
    std::vector<std::string> of_seed = settings;
    of_seed.push_back(absl::StrCat("seed=", seed));
    DING_ASSIGN_OR_RETURN(const SerialResult result, Train(of_seed));
    results.emplace_back(!result.stop, result.env_step);
    std::printf("seed %d: %s after %lld env steps, last return %g\n", seed,
                result.stop ? "reached the bar" : "did not reach the bar",
                static_cast<long long>(result.env_step), result.eval_value.value_or(0));
    std::fflush(stdout);
  }
  std::sort(results.begin(), results.end());
  const auto& [missed, steps] = results[(results.size() - 1) / 2];
  std::printf(
      "lag %lld, v_trace %s: the median of %d seeds is %s%lld env steps to a return of %g\n",
      static_cast<long long>(FLAGS_lag), FLAGS_v_trace ? "true" : "false", FLAGS_seeds,
      missed ? "more than " : "", static_cast<long long>(steps), FLAGS_bar);
  return absl::OkStatus();
}

int Main(int argc, char** argv) {
  std::vector<std::string> settings;
  absl::Status status = TakeSettings(&argc, argv, &settings);
  if (!status.ok()) return ReportFailure(status);
  InitProgram(&argc, &argv, kHelp);
  status = EnterCallersFolder();
  if (status.ok()) status = Measure(std::move(settings));
  return status.ok() ? 0 : ReportFailure(status);
}

}  // namespace
}  // namespace ding

int main(int argc, char** argv) { return ding::Main(argc, argv); }
