// Measures parallel PPO beside serial PPO on an env that costs 50 us a step: 8 CartPoles per
// collector, rounds of 256 rows, 4 epochs x 4 minibatches of 64 rows, actor and critic 4-64-64 with
// tanh.
//   ParallelPpo       worker/configs/cartpole_ppo_parallel.textproto: two collectors, a learner and
//                     the coordinator, as threads
//   ParallelPpoBaseline  worker/configs/cartpole_ppo.textproto: collecting and learning in turns,
//                     as the loop of the pipeline does it
// The time is that of 1,000 env steps, in a run of at least kSteps from its beginning. The aim
// needs two cores that do nothing else. The working folder must be the root of the checkout.
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "benchmark/benchmark.h"
#include "ding_worker/base/check.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/log.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/env/classic_control/cartpole.h"
#include "ding_worker/env/env.h"
#include "ding_worker/env/env_registry.h"
#include "ding_worker/interaction/messages.pb.h"
#include "ding_worker/interaction/store/store.h"
#include "ding_worker/interaction/store/store_registry.h"
#include "ding_worker/interaction/transport/in_process_transport.h"
#include "ding_worker/metrics/sink.h"
#include "ding_worker/worker/config/experiment_config.h"
#include "ding_worker/worker/pipeline/serial_pipeline.h"
#include "ding_worker/worker/testing/benchmark_parts.h"
#include "ding_worker/worker/testing/in_process_run.h"

namespace ding {
namespace {

constexpr int64_t kSteps = 20'000;
constexpr double kStepsOfATime = 1'000;
constexpr int64_t kStepNanos = 50'000;

void Check(const absl::Status& status) { DING_CHECK(status.ok()) << status; }

// A CartPole whose step takes 50 us longer.
class BusyEnv : public Env {
 public:
  explicit BusyEnv(std::unique_ptr<Env> env) : env_(std::move(env)) {}
  const EnvSpec& spec() const override { return env_->spec(); }
  absl::Status Reset(const EpisodeStart& start, const RowRef& obs) override {
    return env_->Reset(start, obs);
  }
  absl::Status Step(const RowView& action, const RowRef& obs, StepResult* result) override {
    const int64_t end = Clock::Real()->MonotonicNanos() + kStepNanos;
    while (Clock::Real()->MonotonicNanos() < end) {
    }
    return env_->Step(action, obs, result);
  }

 private:
  const std::unique_ptr<Env> env_;
};

absl::StatusOr<std::unique_ptr<Env>> MakeBusyCartPole() {
  absl::StatusOr<std::unique_ptr<Env>> env = CreateCartPole("CartPole-v1", 500);
  if (!env.ok()) return env.status();
  return std::make_unique<BusyEnv>(*std::move(env));
}

DING_REGISTER(EnvRegistry(), "BusyCartPole", WithoutParams(MakeBusyCartPole),
              "CartPole-v1 whose step takes 50 us longer");

ExperimentConfig Load(const std::string& name, std::vector<std::string> settings) {
  // Evaluations cost next to nothing, and none ends the run.
  settings.insert(settings.end(), {"env.type=BusyCartPole", "env.evaluator_type=CartPole-v1",
                                   "env.stop_value=1000"});
  absl::StatusOr<ExperimentConfig> config =
      LoadExperimentConfig(absl::StrCat("worker/configs/", name, ".textproto"), settings);
  Check(config.status());
  return *std::move(config);
}

std::string MakeTemporaryFolder() {
  std::string path = "/tmp/parallel_ppo_benchmark.XXXXXX";
  DING_CHECK(mkdtemp(path.data()) != nullptr) << "no temporary folder " << path;
  return path;
}

void BM_ParallelPpo(benchmark::State& state) {
  const ExperimentConfig config =
      Load("cartpole_ppo_parallel",
           {absl::StrCat("max_env_step=", kSteps), "policy.other.commander.eval_interval=1000"});
  SetMinLogSeverity(LogSeverity::kWarning);
  for (auto _ : state) {
    const std::string folder = MakeTemporaryFolder();
    ComponentDeps deps;
    deps.exp_dir = folder;
    absl::StatusOr<std::unique_ptr<Store>> store = create_store("mem:");
    Check(store.status());
    InProcessTransport transport;
    const InProcessRun run = RunInProcess(config, deps, store->get(), &transport, &transport);
    Check(run.end);
    Check(run.workers);
    Check(RemoveRecursively(folder));
    DING_CHECK(run.status.envstep() >= kSteps) << run.status.envstep();
    state.SetIterationTime(run.status.elapsed_seconds() * kStepsOfATime /
                           static_cast<double>(run.status.envstep()));
  }
  state.SetLabel("aim=1.5");
}
BENCHMARK(BM_ParallelPpo)->UseManualTime()->Iterations(1);

void BM_ParallelPpoBaseline(benchmark::State& state) {
  const ExperimentConfig config = Load("cartpole_ppo", {});
  for (auto _ : state) {
    CartPolePipeline pipeline(config);
    const int64_t begin = Clock::Real()->MonotonicNanos();
    while (pipeline->collector()->envstep() < kSteps) {
      CollectOptions options;
      options.train_iter = pipeline->learner()->train_iter();
      const absl::StatusOr<SegmentBatch> data = pipeline->collector()->Collect(options);
      Check(data.status());
      Check(pipeline->learner()->Train(data->rows, pipeline->collector()->envstep()));
    }
    const int64_t nanos = Clock::Real()->MonotonicNanos() - begin;
    state.SetIterationTime(static_cast<double>(nanos) * 1e-9 * kStepsOfATime /
                           static_cast<double>(pipeline->collector()->envstep()));
  }
}
BENCHMARK(BM_ParallelPpoBaseline)->UseManualTime()->Iterations(1);

}  // namespace
}  // namespace ding
