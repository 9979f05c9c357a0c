// What SampleSerialCollector adds to the envs: 8 CartPoles, a policy that only copies actions from
// a table, and n_sample 8 (one vector step per collect) or 1024.
//   Manager      ready_obs(), the policy, Step()
//   Collector    the same through Collect(), whose data is thrown away
//   Interleaved  both in turns, in pieces of 1024 rows, so that a busy machine slows both;
//                `overhead_us` is what the collector adds per vector step of 8 rows
// items_per_second counts rows.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "benchmark/benchmark.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/collector/sample_serial_collector.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/named_values.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/state.h"
#include "ding_worker/env/base_env_manager.h"
#include "ding_worker/env/classic_control/cartpole.h"
#include "ding_worker/env/env.h"
#include "ding_worker/env/env_manager.h"
#include "ding_worker/policy/policy.h"

namespace ding {
namespace {

constexpr int kEnvs = 8;
constexpr int kActionRows = 4096;  // of kEnvs actions, drawn once
constexpr int kPieceRows = 1024;

void Check(const absl::Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  std::exit(1);
}

std::unique_ptr<EnvManager> MakeEnvs() {
  std::vector<EnvFactory> factories(kEnvs, [] { return CreateCartPole("CartPole-v1", 500); });
  absl::StatusOr<std::unique_ptr<BaseEnvManager>> envs =
      BaseEnvManager::Create({}, std::move(factories));
  Check(envs.status());
  Check((*envs)->Launch());
  return *std::move(envs);
}

class TablePolicy : public CollectMode {
 public:
  explicit TablePolicy(SpecPtr action) : action_(std::move(action)), table_(kActionRows * kEnvs) {
    Rng rng(0, "benchmark/actions");
    for (int64_t& action : table_) action = static_cast<int64_t>(rng.UniformInt(2));
  }

  const SpecPtr& output_spec() const override { return action_; }
  CollectAttributes attributes() const override { return {}; }
  absl::Status Forward(const ColumnsView& obs, absl::Span<const int> /*env_ids*/,
                       const NamedValues& /*settings*/, const MutableColumnsView& out) override {
    benchmark::DoNotOptimize(obs.raw_column(0));
    const auto from = table_.begin() + step_++ % kActionRows * kEnvs;
    std::copy(from, from + obs.rows(), out.column<int64_t>(0).begin());
    return absl::OkStatus();
  }
  absl::Status LoadModel(StateReader* /*reader*/) override { return absl::OkStatus(); }
  absl::Status SaveState(StateWriter* /*writer*/) const override { return absl::OkStatus(); }
  absl::Status LoadState(StateReader* /*reader*/) override { return absl::OkStatus(); }

 private:
  const SpecPtr action_;
  std::vector<int64_t> table_;
  int64_t step_ = 0;
};

class Manager {
 public:
  void Run(int64_t rows) {
    for (; rows > 0; rows -= kEnvs) {
      const ReadyObs ready = envs_->ready_obs();
      Check(policy_.Forward(ready.obs, ready.env_ids, {}, actions_.view()));
      const absl::StatusOr<const Timesteps*> steps = envs_->Step(ready.env_ids, actions_.view());
      Check(steps.status());
      benchmark::DoNotOptimize((*steps)->reward.data());
    }
  }

 private:
  const std::unique_ptr<EnvManager> envs_ = MakeEnvs();
  TablePolicy policy_{envs_->env_spec().action};
  BatchBuilder actions_ = *BatchBuilder::Create(envs_->env_spec().action, kEnvs);
};

template <int64_t n_sample>
class Collector {
 public:
  Collector() {
    absl::StatusOr<std::unique_ptr<SampleSerialCollector>> collector =
        SampleSerialCollector::Create({}, envs_.get(), &policy_, {});
    Check(collector.status());
    collector_ = *std::move(collector);
    options_.target = n_sample;
  }

  void Run(int64_t rows) {
    for (; rows > 0; rows -= n_sample) {
      const absl::StatusOr<SegmentBatch> data = collector_->Collect(options_);
      Check(data.status());
      benchmark::DoNotOptimize(data->segments.data());
    }
  }

 private:
  const std::unique_ptr<EnvManager> envs_ = MakeEnvs();
  TablePolicy policy_{envs_->env_spec().action};
  std::unique_ptr<SampleSerialCollector> collector_;
  CollectOptions options_;
};

template <typename Runner>
void BM_Rows(benchmark::State& state) {
  Runner runner;
  for (auto _ : state) runner.Run(kPieceRows);
  state.SetItemsProcessed(state.iterations() * kPieceRows);
}
BENCHMARK_TEMPLATE(BM_Rows, Manager);
BENCHMARK_TEMPLATE(BM_Rows, Collector<8>);
BENCHMARK_TEMPLATE(BM_Rows, Collector<1024>);

template <int64_t n_sample>
void BM_Interleaved(benchmark::State& state) {
  Manager manager;
  Collector<n_sample> collector;
  double manager_seconds = 0;
  double collector_seconds = 0;
  const auto run = [](auto* runner) {
    const Timer timer(Clock::Real());
    runner->Run(kPieceRows);
    return timer.Seconds();
  };
  for (auto _ : state) {
    manager_seconds += run(&manager);
    collector_seconds += run(&collector);
  }
  const double steps = static_cast<double>(state.iterations()) * kPieceRows / kEnvs;
  state.counters["manager_us"] = 1e6 * manager_seconds / steps;
  state.counters["overhead_us"] = 1e6 * (collector_seconds - manager_seconds) / steps;
}
BENCHMARK_TEMPLATE(BM_Interleaved, 8);
BENCHMARK_TEMPLATE(BM_Interleaved, 1024);

}  // namespace
}  // namespace ding
