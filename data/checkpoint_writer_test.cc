#include <atomic>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include "ding_worker/base/file.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/checkpoint.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

std::string Path(absl::string_view name) { return JoinPath(testing::TempDir(), name); }

CheckpointComponent Number(int64_t value) {
  return {"number", [value](StateWriter* writer) { return writer->WriteInt("value", value); }};
}

int64_t NumberIn(const std::string& path) {
  const absl::StatusOr<CheckpointReader> checkpoint = CheckpointReader::Open(path);
  EXPECT_THAT(checkpoint, IsOk());
  return checkpoint.ok() ? *(*checkpoint->Component("number"))->ReadInt("value") : -1;
}

TEST(CheckpointWriter, WritesInOrderAndFinishesBeforeDestruction) {
  std::vector<int> done;
  {
    CheckpointWriter writer;
    for (int i = 0; i < 10; ++i) {
      writer.Write(Path("in_order"), {"test", {}}, {Number(i)}, [&done, i](const absl::Status& s) {
        EXPECT_THAT(s, IsOk());
        done.push_back(i);
      });
    }
  }
  EXPECT_THAT(done, testing::ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9));
  EXPECT_EQ(NumberIn(Path("in_order")), 9);
}

// A component whose writing begins, and then waits to be let go.
class SlowComponent {
 public:
  CheckpointComponent component() {
    return {"number", [this](StateWriter* writer) {
              if (calls_++ == 0) {
                begun_.set_value();
                go_on_.get_future().wait();
              }
              return writer->WriteInt("value", 7);
            }};
  }
  void WaitUntilBegun() { begun_.get_future().wait(); }
  void LetGo() { go_on_.set_value(); }

 private:
  int calls_ = 0;
  std::promise<void> begun_;
  std::promise<void> go_on_;
};

TEST(CheckpointWriter, WriteReturnsBeforeItIsDoneAndFlushWaits) {
  SlowComponent slow;
  CheckpointWriter writer;
  EXPECT_TRUE(writer.idle());
  std::atomic<bool> done{false};
  writer.Write(Path("slow"), {"test", {}}, {slow.component()},
               [&](const absl::Status&) { done = true; });
  slow.WaitUntilBegun();
  EXPECT_FALSE(writer.idle());
  EXPECT_FALSE(done);
  slow.LetGo();
  writer.Flush();
  EXPECT_TRUE(writer.idle());
  EXPECT_TRUE(done);
  EXPECT_EQ(NumberIn(Path("slow")), 7);
}

TEST(CheckpointWriter, WriteBlocksWhenTooManyWritesWait) {
  SlowComponent slow;
  std::atomic<bool> let_go{false};
  CheckpointWriter writer;
  writer.Write(Path("bound"), {"test", {}}, {slow.component()}, [](const absl::Status&) {});
  slow.WaitUntilBegun();
  std::promise<void> others_wait;
  std::thread saver([&] {
    for (size_t i = 0; i < CheckpointWriter::kMaxWaiting; ++i) {
      writer.Write(Path("bound"), {"test", {}}, {Number(1)}, [](const absl::Status&) {});
    }
    others_wait.set_value();
    writer.Write(Path("bound"), {"test", {}}, {Number(2)}, [](const absl::Status&) {});
    EXPECT_TRUE(let_go);  // Before that, there was no room.
  });
  others_wait.get_future().wait();
  let_go = true;
  slow.LetGo();
  saver.join();
  writer.Flush();
  EXPECT_EQ(NumberIn(Path("bound")), 2);
}

TEST(CheckpointWriter, ReportsAFailedWriteAndContinues) {
  absl::Status missing_folder;
  {
    CheckpointWriter writer;
    writer.Write(Path("no/such/folder"), {"test", {}}, {Number(1)},
                 [&](const absl::Status& status) { missing_folder = status; });
    writer.Write(Path("after_it"), {"test", {}}, {Number(2)},
                 [](const absl::Status& status) { EXPECT_THAT(status, IsOk()); });
  }
  EXPECT_THAT(missing_folder, StatusIs(absl::StatusCode::kNotFound));
  EXPECT_EQ(NumberIn(Path("after_it")), 2);
}

}  // namespace
}  // namespace ding
