#include "ding_worker/learner/async_data_loader.h"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "ding_worker/base/mutex.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/learner/learner.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using Options = AsyncDataLoader::Options;

// Loads batch n, whose envstep is n.
BatchLoader Number(int64_t n) {
  return [n] { return TrainData(Batch(), n); };
}

// A source of batches 0, 1, ... count - 1.
BatchSource Numbers(int64_t count) {
  auto next = std::make_shared<int64_t>(0);
  return [=]() -> absl::StatusOr<std::optional<BatchLoader>> {
    if (*next == count) return std::nullopt;
    return Number((*next)++);
  };
}

// A gate that a source or a loader waits for.
class Gate {
 public:
  void Open() {
    const MutexLock lock(&mutex_);
    open_ = true;
    changed_.SignalAll();
  }
  void Wait() {
    const MutexLock lock(&mutex_);
    while (!open_) changed_.WaitFor(&mutex_, absl::Seconds(1));
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  bool open_ ABSL_GUARDED_BY(mutex_) = false;
};

std::unique_ptr<AsyncDataLoader> Create(int num_workers, BatchSource source,
                                        std::function<void()> cancel = nullptr,
                                        absl::Duration timeout = absl::Minutes(5)) {
  Options options;
  options.num_workers = num_workers;
  options.timeout = timeout;
  auto loader = AsyncDataLoader::Create(options, std::move(source), std::move(cancel));
  EXPECT_THAT(loader, IsOk());
  return *std::move(loader);
}

// Waits until `condition` is true; the timeout of the test ends it.
template <typename Condition>
void WaitUntil(Condition condition) {
  while (!condition()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

TEST(AsyncDataLoaderTest, KeepsTheOrderOfTheSource) {
  for (const int num_workers : {0, 1, 3}) {
    SCOPED_TRACE(num_workers);
    auto rng = std::make_shared<Rng>(7, "delays");
    auto next = std::make_shared<int64_t>(0);
    const auto loader = Create(num_workers, [=]() -> absl::StatusOr<std::optional<BatchLoader>> {
      if (*next == 200) return std::nullopt;
      const absl::Duration delay = absl::Microseconds(rng->Uniform(0, 1000));
      return [n = (*next)++, delay]() -> absl::StatusOr<TrainData> {
        absl::SleepFor(delay);
        return TrainData(Batch(), n);
      };
    });
    for (int64_t n = 0; n < 200; ++n) {
      DING_ASSERT_OK_AND_ASSIGN(const std::optional<TrainData> data, loader->Next());
      ASSERT_TRUE(data.has_value());
      ASSERT_EQ(data->envstep, n);
    }
    for (int i = 0; i < 2; ++i) {
      DING_ASSERT_OK_AND_ASSIGN(const std::optional<TrainData> end, loader->Next());
      EXPECT_FALSE(end.has_value());
    }
  }
}

TEST(AsyncDataLoaderTest, LoadsOneBatchPerWorkerAtATime) {
  Gate gate;
  std::atomic<int> loading{0};
  std::atomic<int> asked{0};
  const auto loader = Create(3, [&]() -> absl::StatusOr<std::optional<BatchLoader>> {
    if (asked == 100) return std::nullopt;
    return [&, n = asked++]() -> absl::StatusOr<TrainData> {
      ++loading;
      gate.Wait();
      return TrainData(Batch(), n);
    };
  });
  WaitUntil([&] { return loading == 3 && asked == 6; });
  gate.Open();
  WaitUntil([&] { return loading == 6; });
  for (int64_t n = 0; n < 100; ++n) {
    // Each batch that Next() returned makes room for one more.
    EXPECT_LE(asked, n + 6);
    DING_ASSERT_OK_AND_ASSIGN(const std::optional<TrainData> data, loader->Next());
    EXPECT_EQ(data->envstep, n);
  }
}

TEST(AsyncDataLoaderTest, KeepsBatchesAheadAndRefillsThemByHalves) {
  Options options;
  options.num_workers = 1;
  options.batches_ahead = 8;
  std::atomic<int64_t> loaded{0};
  DING_ASSERT_OK_AND_ASSIGN(
      const auto loader,
      AsyncDataLoader::Create(
          options,
          [&, asked = int64_t{0}]() mutable -> absl::StatusOr<std::optional<BatchLoader>> {
            return [&loaded, n = asked++]() -> absl::StatusOr<TrainData> {
              ++loaded;
              return TrainData(Batch(), n);
            };
          },
          nullptr));
  int64_t next = 0;
  for (int64_t all : {8, 12, 16}) {
    WaitUntil([&] { return loaded == all; });
    for (int i = 0; i < 4; ++i) {
      EXPECT_EQ(loaded, all);
      DING_ASSERT_OK_AND_ASSIGN(const std::optional<TrainData> data, loader->Next());
      ASSERT_TRUE(data.has_value());
      EXPECT_EQ(data->envstep, next++);
    }
  }
}

TEST(AsyncDataLoaderTest, AnErrorTakesThePlaceOfItsBatchAndEndsTheLoader) {
  struct ErrorCase {
    BatchLoader third;
    absl::StatusCode code;
    std::string message;
  };
  const std::vector<ErrorCase> cases = {
      {[] { return absl::DataLossError("chunk 3 is gone"); }, absl::StatusCode::kDataLoss,
       "chunk 3 is gone"},
      {[]() -> absl::StatusOr<TrainData> { throw std::runtime_error("no disk"); },
       absl::StatusCode::kInternal, "loading a batch threw an exception: no disk"},
      {BatchLoader(), absl::StatusCode::kInternal, "loading a batch threw"},
  };
  for (const ErrorCase& error : cases) {
    auto next = std::make_shared<int64_t>(0);
    const auto loader = Create(3, [&, next]() -> absl::StatusOr<std::optional<BatchLoader>> {
      const int64_t n = (*next)++;
      return n == 2 ? error.third : Number(n);
    });
    for (int64_t n = 0; n < 2; ++n) {
      DING_ASSERT_OK_AND_ASSIGN(const std::optional<TrainData> data, loader->Next());
      EXPECT_EQ(data->envstep, n);
    }
    EXPECT_THAT(loader->Next(), IsError(error.code, error.message));
    DING_ASSERT_OK_AND_ASSIGN(const std::optional<TrainData> end, loader->Next());
    EXPECT_FALSE(end.has_value());
  }
}

TEST(AsyncDataLoaderTest, AnErrorOfTheSourceComesAfterItsBatches) {
  for (const bool throws : {false, true}) {
    auto next = std::make_shared<int64_t>(0);
    const auto loader = Create(2, [=]() -> absl::StatusOr<std::optional<BatchLoader>> {
      if (*next < 3) return Number((*next)++);
      if (throws) throw std::runtime_error("no coordinator");
      return absl::UnavailableError("no coordinator");
    });
    for (int64_t n = 0; n < 3; ++n) {
      DING_ASSERT_OK_AND_ASSIGN(const std::optional<TrainData> data, loader->Next());
      EXPECT_EQ(data->envstep, n);
    }
    EXPECT_THAT(loader->Next(),
                IsError(throws ? absl::StatusCode::kInternal : absl::StatusCode::kUnavailable,
                        "no coordinator"));
    DING_ASSERT_OK_AND_ASSIGN(const std::optional<TrainData> end, loader->Next());
    EXPECT_FALSE(end.has_value());
  }
}

TEST(AsyncDataLoaderTest, CloseWakesBlockedCalls) {
  // The source blocks, and so does Next().
  for (int i = 0; i < 10; ++i) {
    Gate gate;
    std::atomic<int> cancels{0};
    std::atomic<bool> asked{false};
    const auto loader = Create(
        2,
        [&]() -> absl::StatusOr<std::optional<BatchLoader>> {
          asked = true;
          gate.Wait();
          return absl::CancelledError("closing");
        },
        [&] {
          ++cancels;
          gate.Open();
        });
    std::thread closer([&] {
      WaitUntil([&] { return asked.load(); });
      loader->Close();
      loader->Close();
    });
    DING_ASSERT_OK_AND_ASSIGN(const std::optional<TrainData> data, loader->Next());
    EXPECT_FALSE(data.has_value());
    loader->Close();
    closer.join();
    EXPECT_EQ(cancels, 1);
  }
}

TEST(AsyncDataLoaderTest, CloseDropsReadyBatchesAndWaitsForLoaders) {
  Gate gate;
  std::atomic<int> loaded{0};
  auto watch = std::make_shared<int>(0);
  auto loader = Create(1, [&, watch]() -> absl::StatusOr<std::optional<BatchLoader>> {
    return [&, watch]() -> absl::StatusOr<TrainData> {
      if (loaded == 1) gate.Wait();
      ++loaded;
      return TrainData();
    };
  });
  WaitUntil([&] { return loaded == 1; });
  std::thread opener([&] { gate.Open(); });
  loader->Close();
  opener.join();
  const int at_close = loaded;
  EXPECT_LE(at_close, 3);
  DING_ASSERT_OK_AND_ASSIGN(const std::optional<TrainData> data, loader->Next());
  EXPECT_FALSE(data.has_value());
  EXPECT_EQ(loaded, at_close);
  loader.reset();
  EXPECT_EQ(watch.use_count(), 1);
}

TEST(AsyncDataLoaderTest, ClosesAtAnyTime) {
  for (int i = 0; i < 100; ++i) {
    auto loader = Create(1 + i % 3, Numbers(1000));
    for (int n = 0; n < i % 7; ++n) EXPECT_THAT(loader->Next(), IsOk());
    if (i % 2 == 0) loader->Close();
  }
}

TEST(AsyncDataLoaderTest, NextWaitsNoLongerThanTheTimeout) {
  Gate source_gate;
  Gate loader_gate;
  const auto loader = Create(
      1,
      [&, first = std::make_shared<bool>(true)]() -> absl::StatusOr<std::optional<BatchLoader>> {
        source_gate.Wait();
        if (!std::exchange(*first, false)) return std::nullopt;
        return [&]() -> absl::StatusOr<TrainData> {
          loader_gate.Wait();
          return TrainData(Batch(), 5);
        };
      },
      nullptr, absl::Milliseconds(20));
  EXPECT_THAT(loader->Next(),
              IsError(absl::StatusCode::kDeadlineExceeded, "20ms", "the source returns none"));
  source_gate.Open();
  absl::Status status;
  WaitUntil([&] {
    status = loader->Next().status();
    return absl::StrContains(status.message(), "1 are being loaded");
  });
  EXPECT_THAT(status, IsError(absl::StatusCode::kDeadlineExceeded, "20ms"));
  loader_gate.Open();
  std::optional<TrainData> data;
  WaitUntil([&] {
    absl::StatusOr<std::optional<TrainData>> next = loader->Next();
    if (next.ok()) data = *next;
    return next.ok();
  });
  ASSERT_TRUE(data.has_value());
  EXPECT_EQ(data->envstep, 5);
}

TEST(AsyncDataLoaderTest, RefusesInvalidOptions) {
  Options options;
  EXPECT_THAT(AsyncDataLoader::Create(options, nullptr, nullptr),
              IsInvalid("source of batches is null"));
  options.num_workers = -1;
  EXPECT_THAT(AsyncDataLoader::Create(options, Numbers(1), nullptr),
              IsInvalid("num_workers is -1"));
  options.num_workers = 0;
  options.batches_ahead = -1;
  EXPECT_THAT(AsyncDataLoader::Create(options, Numbers(1), nullptr),
              IsInvalid("batches_ahead is -1"));
  options.batches_ahead = 0;
  options.timeout = absl::ZeroDuration();
  EXPECT_THAT(AsyncDataLoader::Create(options, Numbers(1), nullptr), IsInvalid("timeout is 0"));
}

}  // namespace
}  // namespace ding
