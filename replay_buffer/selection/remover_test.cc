// A remover of one's own, registered as any user would.
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ding_worker/base/params.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/state.h"
#include "ding_worker/data/tensor.h"
#include "ding_worker/metrics/sink.h"
#include "ding_worker/replay_buffer/buffer.h"
#include "ding_worker/replay_buffer/buffer.pb.h"
#include "ding_worker/replay_buffer/buffer_registry.h"
#include "ding_worker/replay_buffer/selection/selector.h"
#include "ding_worker/replay_buffer/testing/saved_state.h"
#include "ding_worker/replay_buffer/testing/test_streams.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

// Removes the rows whose id is odd, from the learner's iteration 10 on. Counts the rows that were
// pushed, which is its state.
class RemoveOdd : public IRemover {
 public:
  void Append(const SegmentBatch& data, int64_t first_id) override {
    EXPECT_EQ(first_id, pushed_);
    pushed_ += data.size();
  }
  absl::Status Remove(const Candidates& rows, int64_t learner_iter,
                      std::vector<int64_t>* ids) override {
    EXPECT_TRUE(ids->empty());
    if (learner_iter < 10) return absl::OkStatus();
    *ids = {-1, pushed_, 1000000};  // These are not in the buffer.
    for (int64_t rank = 0; rank < rows.size(); ++rank) {
      if (rows.Id(rank) % 2 == 1) ids->push_back(rows.Id(rank));
    }
    return absl::OkStatus();
  }
  StateSnapshot Snapshot() const override {
    return [pushed = pushed_](StateWriter* writer) { return writer->WriteInt("pushed", pushed); };
  }
  absl::Status LoadState(StateReader* reader) override {
    DING_ASSIGN_OR_RETURN(pushed_, reader->ReadInt("pushed"));
    return absl::OkStatus();
  }

 private:
  int64_t pushed_ = 0;
};

class ThrowingRemover : public IRemover {
 public:
  absl::Status Remove(const Candidates&, int64_t, std::vector<int64_t>* ids) override {
    ids->push_back(0);
    throw std::runtime_error("out of ideas");
  }
};

DING_REGISTER(
    RemoverRegistry(), "odd",
    [](const RemoverConfig& config) -> absl::StatusOr<std::unique_ptr<IRemover>> {
      DING_RETURN_IF_ERROR(ReadParams(config, /*params=*/nullptr));
      return std::make_unique<RemoveOdd>();
    },
    "removes every second row");
DING_REGISTER(
    RemoverRegistry(), "throwing",
    [](const RemoverConfig&) { return std::make_unique<ThrowingRemover>(); },
    "throws an exception");

BufferConfig Config(const std::string& remover, const std::string& type = "advanced") {
  BufferConfig config;
  config.set_type(type);
  config.set_replay_buffer_size(64);
  if (!remover.empty()) config.mutable_remover()->set_type(remover);
  return config;
}

// With 12 rows.
std::unique_ptr<IBuffer> Filled(const BufferConfig& config) {
  absl::StatusOr<std::unique_ptr<IBuffer>> buffer = create_buffer(config, ComponentDeps());
  EXPECT_THAT(buffer, IsOk());
  TestStreams streams;
  for (int i = 0; i < 3; ++i) EXPECT_THAT((*buffer)->Push(streams.Make({{0, 4}}), 0), IsOk());
  return *std::move(buffer);
}

TEST(RemoverTest, RemovedRowsAreNeitherCountedNorDrawn) {
  const std::unique_ptr<IBuffer> buffer = Filled(Config("odd"));
  ASSERT_THAT(buffer->Sample(4, /*cur_learner_iter=*/9), IsOk());
  EXPECT_EQ(buffer->count(), 12);
  for (int round = 0; round < 20; ++round) {
    DING_ASSERT_OK_AND_ASSIGN(const Batch batch, buffer->Sample(4, 10));
    for (const int64_t id : batch.column<int64_t>("replay_unique_id")) EXPECT_EQ(id % 2, 0);
    EXPECT_THAT(CheckRows(batch), IsOk());
  }
  EXPECT_EQ(buffer->count(), 6);
  EXPECT_EQ(buffer->push_count(), 12);
  EXPECT_THAT(buffer->Sample(7, 10), IsFailedPrecondition("holds 6 in 12 rows"));
}

TEST(RemoverTest, TheStateOfARemoverIsSavedWithTheBuffer) {
  const std::unique_ptr<IBuffer> buffer = Filled(Config("odd"));
  ASSERT_THAT(buffer->Sample(4, 10), IsOk());
  const TensorMap saved = Saved(*buffer);
  DING_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<IBuffer> loaded,
                            create_buffer(Config("odd"), ComponentDeps()));
  ASSERT_THAT(LoadFrom(loaded.get(), saved), IsOk());
  EXPECT_TRUE(SameBytes(saved, Saved(*loaded)));
  EXPECT_EQ(loaded->count(), 6);
  // The remover goes on counting from there (RemoveOdd::Append()).
  TestStreams streams(/*first_step=*/100);
  ASSERT_THAT(loaded->Push(streams.Make({{0, 4}}), 0), IsOk());
  // A buffer without a remover has no state of one.
  EXPECT_THAT(LoadFrom(loaded.get(), Saved(*Filled(Config("")))), IsNotFound("pushed"));
}

TEST(RemoverTest, ARemoverThatThrowsFailsTheDrawOnly) {
  const std::unique_ptr<IBuffer> buffer = Filled(Config("throwing"));
  const TensorMap before = Saved(*buffer);
  EXPECT_THAT(buffer->Sample(4, 10), IsInternal("the remover threw an exception: out of ideas"));
  EXPECT_TRUE(SameBytes(before, Saved(*buffer)));
}

TEST(RemoverTest, RefusesWhatIsNoRemover) {
  const auto refusal = [](const BufferConfig& config) {
    return create_buffer(config, ComponentDeps()).status();
  };
  EXPECT_THAT(refusal(Config("no_such")),
              IsInvalid("unknown remover type 'no_such'; this program has: odd"));
  BufferConfig with_params = Config("odd");
  with_params.mutable_remover()->mutable_params()->PackFrom(RemoverConfig());
  EXPECT_THAT(refusal(with_params),
              IsInvalid("params hold a ding.RemoverConfig, but type 'odd' takes none"));
  with_params.mutable_remover()->clear_type();
  EXPECT_THAT(refusal(with_params), IsInvalid("expected remover.type with it"));
  EXPECT_THAT(refusal(Config("odd", "naive")),
              IsInvalid("remover.type is 'odd', but buffers of type 'naive' take no "
                        "remover: expected type 'advanced'"));
}

}  // namespace
}  // namespace ding
