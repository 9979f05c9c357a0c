// SampleSerialCollector with 8 CartPoles and a policy that only copies actions from a table.
//   Collect/n   Collect() of n rows, whose data is thrown away; 8: one vector step
// items_per_second counts rows. With a network: serial_pipeline_benchmark. The floors are in
// tools/floors/env_floors.cc.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "benchmark/benchmark.h"
#include "ding_worker/base/check.h"
#include "ding_worker/collector/serial/serial_collectors.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/named_values.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/state.h"
#include "ding_worker/env/base_env_manager.h"
#include "ding_worker/env/classic_control/bare_cartpoles.h"
#include "ding_worker/env/classic_control/cartpole.h"
#include "ding_worker/env/env.h"
#include "ding_worker/env/env_manager.h"
#include "ding_worker/policy/policy.h"

namespace ding {
namespace {

constexpr int kEnvs = 8;

std::unique_ptr<EnvManager> MakeEnvs() {
  std::vector<EnvFactory> factories(kEnvs, [] { return CreateCartPole("CartPole-v1", 500); });
  absl::StatusOr<std::unique_ptr<BaseEnvManager>> envs =
      BaseEnvManager::Create({}, std::move(factories));
  DING_CHECK(envs.ok()) << envs.status();
  const absl::Status launched = (*envs)->Launch();
  DING_CHECK(launched.ok()) << launched;
  return *std::move(envs);
}

class TablePolicy : public CollectMode {
 public:
  explicit TablePolicy(SpecPtr action) : action_(std::move(action)) {}

  const SpecPtr& output_spec() const override { return action_; }
  CollectAttributes attributes() const override { return {}; }
  absl::Status Forward(const ColumnsView& obs, absl::Span<const int> /*env_ids*/,
                       const NamedValues& /*settings*/, const MutableColumnsView& out) override {
    benchmark::DoNotOptimize(obs.raw_column(0));
    std::copy_n(table_.Next(), obs.rows(), out.column<int64_t>(0).begin());
    return absl::OkStatus();
  }
  absl::Status LoadModel(StateReader* /*reader*/) override { return absl::OkStatus(); }
  absl::Status SaveState(StateWriter* /*writer*/) const override { return absl::OkStatus(); }
  absl::Status LoadState(StateReader* /*reader*/) override { return absl::OkStatus(); }

 private:
  const SpecPtr action_;
  CartPoleActions<kEnvs> table_;
};

void BM_Collect(benchmark::State& state) {
  const std::unique_ptr<EnvManager> envs = MakeEnvs();
  TablePolicy policy(envs->env_spec().action);
  const auto collector = SampleSerialCollector::Create({}, envs.get(), &policy, {});
  DING_CHECK(collector.ok()) << collector.status();
  CollectOptions options;
  options.target = state.range(0);
  for (auto _ : state) {
    const absl::StatusOr<SegmentBatch> data = (*collector)->Collect(options);
    DING_CHECK(data.ok()) << data.status();
    benchmark::DoNotOptimize(data->segments.data());
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(BM_Collect)->Arg(8)->Arg(1024);

}  // namespace
}  // namespace ding
