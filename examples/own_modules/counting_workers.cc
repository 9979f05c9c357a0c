// A comm collector and a comm learner: "counting" count and log what goes through the store.
//   system { comm_collector_type: "counting" comm_learner_type: "counting" }
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ding_worker/base/log.h"
#include "ding_worker/base/params.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/collector/comm/base_comm_collector.h"
#include "ding_worker/collector/comm/comm_collector_registry.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/learner/comm/base_comm_learner.h"
#include "ding_worker/learner/comm/comm_learner_registry.h"

namespace own {
namespace {

class CountingCollector : public ding::BaseCommCollector {
 public:
  using BaseCommCollector::BaseCommCollector;

 private:
  absl::StatusOr<std::unique_ptr<ding::TaskCollector>> CreateCollector(
      const ding::CollectorTask& task, ding::CollectorLink* link) override {
    DING_LOG(INFO) << "counting: collecting task " << ++tasks_;
    return BaseCommCollector::CreateCollector(task, link);
  }

  absl::Status SendStepData(int64_t chunk, const ding::SegmentBatch& data) override {
    DING_RETURN_IF_ERROR(BaseCommCollector::SendStepData(chunk, data));
    rows_ += data.size();
    DING_LOG_IF(INFO, ++chunks_ % 100 == 1) << "counting: " << rows_ << " rows sent";
    return absl::OkStatus();
  }

  // The thread of the task calls all steps.
  int64_t tasks_ = 0;
  int64_t chunks_ = 0;
  int64_t rows_ = 0;
};

class CountingLearner : public ding::BaseCommLearner {
 public:
  using BaseCommLearner::BaseCommLearner;

 private:
  absl::StatusOr<std::unique_ptr<ding::TaskLearner>> CreateLearner(
      const ding::LearnerTask& task, ding::GroupMember* group) override {
    DING_LOG(INFO) << "counting: learning task " << ++tasks_;
    return BaseCommLearner::CreateLearner(task, group);
  }

  // Demands a batch, and returns how to load it: here, loads it and counts its rows.
  absl::StatusOr<std::optional<ding::BatchLoader>> GetData(ding::DemandSource* source) override {
    DING_ASSIGN_OR_RETURN(std::optional<ding::BatchLoader> load, BaseCommLearner::GetData(source));
    if (!load.has_value()) return std::nullopt;  // The task is being closed.
    return ding::BatchLoader([this, load = *std::move(load)]() -> absl::StatusOr<ding::TrainData> {
      DING_ASSIGN_OR_RETURN(ding::TrainData data, load());
      rows_ += data.batch.rows();
      return data;
    });
  }

  absl::Status SendPolicy(const ding::PolicyVersion& version,
                          const ding::EncodedBatch& model) override {
    DING_LOG_IF(INFO, version.version() % 10 == 2)
        << "counting: " << rows_ << " rows loaded before version " << version.version();
    return BaseCommLearner::SendPolicy(version, model);
  }

  int64_t tasks_ = 0;
  std::atomic<int64_t> rows_{0};  // threads of the loader add to it
};

absl::StatusOr<std::unique_ptr<ding::BaseCommCollector>> CreateCollector(
    const ding::GivenParams&, const ding::NoParams&, ding::WorkerSession* session,
    ding::Store* store, ding::TaskCollectorFactory factory) {
  return std::make_unique<CountingCollector>(session, store, std::move(factory));
}

absl::StatusOr<std::unique_ptr<ding::BaseCommLearner>> CreateLearner(
    const ding::GivenParams&, const ding::NoParams&, const ding::CommLearnerOptions& options,
    ding::WorkerSession* session, ding::Store* store, ding::TaskLearnerFactory factory) {
  return std::make_unique<CountingLearner>(options, session, store, std::move(factory));
}

DING_REGISTER(ding::CommCollectorRegistry(), "counting",
              ding::CommCollectorDescriptor{CreateCollector}, "counts the rows it sends");
DING_REGISTER(ding::CommLearnerRegistry(), "counting", ding::CommLearnerDescriptor{CreateLearner},
              "counts the rows it loads");

}  // namespace
}  // namespace own
