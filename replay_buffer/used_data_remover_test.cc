#include "ding_worker/replay_buffer/used_data_remover.h"

#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/file_testing.h"
#include "ding_worker/base/mutex.h"
#include "ding_worker/base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::ElementsAre;

// A store that deletes nothing until it is opened.
class SlowStore {
 public:
  DataDeleter deleter() {
    return [this](const std::string& data_id) {
      MutexLock lock(&mutex_);
      asked_.insert(data_id);
      changed_.SignalAll();
      while (!open_) changed_.WaitFor(&mutex_, absl::Seconds(10));
      return absl::OkStatus();
    };
  }
  void Open() {
    MutexLock lock(&mutex_);
    open_ = true;
    changed_.SignalAll();
  }
  void WaitUntilAskedFor(const std::string& data_id) {
    MutexLock lock(&mutex_);
    while (asked_.count(data_id) == 0) changed_.WaitFor(&mutex_, absl::Seconds(10));
  }
  std::set<std::string> asked() const {
    MutexLock lock(&mutex_);
    return asked_;
  }

 private:
  mutable Mutex mutex_;
  CondVar changed_;
  std::set<std::string> asked_ ABSL_GUARDED_BY(mutex_);
  bool open_ ABSL_GUARDED_BY(mutex_) = false;
};

TEST(UsedDataRemover, DeletesOnlyTheNamedFiles) {
  const std::string folder = FreshTestFolder();
  std::vector<std::string> ids;
  for (int i = 0; i < 20; ++i) {
    ids.push_back(absl::StrCat("data_", i));
    ASSERT_THAT(WriteFileAtomically(JoinPath(folder, ids.back()), "x"), IsOk());
  }
  UsedDataRemover remover(DeleteFilesIn(folder));
  for (int i = 0; i < 18; ++i) remover.Add(ids[i]);
  EXPECT_THAT(remover.Close(), IsOk());
  EXPECT_THAT(ListDirectory(folder).value(), ElementsAre("data_18", "data_19"));
  EXPECT_EQ(remover.deleted(), 18);
  EXPECT_EQ(remover.failed(), 0);
}

TEST(UsedDataRemover, MissingFilesAreNotErrors) {
  UsedDataRemover remover(DeleteFilesIn(FreshTestFolder()));
  remover.Add("never_there");
  EXPECT_THAT(remover.Close(), IsOk());
}

TEST(UsedDataRemover, RefusesIdsOutsideTheFolder) {
  const std::string parent = FreshTestFolder();
  const std::string folder = JoinPath(parent, "data");
  ASSERT_THAT(CreateDirectories(JoinPath(folder, "sub")), IsOk());
  ASSERT_THAT(WriteFileAtomically(JoinPath(parent, "kept"), "x"), IsOk());
  ASSERT_THAT(WriteFileAtomically(JoinPath(folder, "sub/..gone"), "x"), IsOk());
  UsedDataRemover remover(DeleteFilesIn(folder));
  remover.Add("../kept");
  remover.Add("sub/../../kept");
  remover.Add(JoinPath(parent, "kept"));
  remover.Add("");
  remover.Add("sub/..gone");
  EXPECT_THAT(remover.Close(), IsInvalid("4 of 5 used data could not be deleted, the first: ",
                                         "'../kept' is not a path below"));
  EXPECT_TRUE(PathExists(JoinPath(parent, "kept")));
  EXPECT_FALSE(PathExists(JoinPath(folder, "sub/..gone")));
}

TEST(UsedDataRemover, FailuresAreCountedAndReportedOnce) {
  UsedDataRemover remover(
      [](const std::string& data_id) { return absl::UnavailableError(data_id); });
  remover.Add("first");
  remover.Add("second");
  EXPECT_THAT(remover.Close(), IsUnavailable("2 of 2", "first: first"));
  EXPECT_THAT(remover.Close(), IsOk());
  EXPECT_EQ(remover.failed(), 2);
}

TEST(UsedDataRemover, AddDoesNotWaitForTheStore) {
  SlowStore store;
  UsedDataRemover remover(store.deleter(), /*max_waiting=*/2);
  remover.Add("a");
  store.WaitUntilAskedFor("a");
  remover.Add("b");
  remover.Add("c");
  // The queue is full: this thread deletes d, before b and c.
  std::thread adder([&] { remover.Add("d"); });
  store.WaitUntilAskedFor("d");
  EXPECT_THAT(store.asked(), ElementsAre("a", "d"));
  store.Open();
  adder.join();
  EXPECT_THAT(remover.Close(), IsOk());
  EXPECT_THAT(store.asked(), ElementsAre("a", "b", "c", "d"));
}

TEST(UsedDataRemover, AddAfterCloseDeletesAtOnce) {
  SlowStore store;
  store.Open();
  UsedDataRemover remover(store.deleter());
  EXPECT_THAT(remover.Close(), IsOk());
  remover.Add("late");
  EXPECT_THAT(store.asked(), ElementsAre("late"));
}

TEST(UsedDataRemover, DestructorDeletesQueuedData) {
  SlowStore store;
  store.Open();
  {
    UsedDataRemover remover(store.deleter());
    for (int i = 0; i < 100; ++i) remover.Add(absl::StrCat(i));
  }
  EXPECT_EQ(store.asked().size(), 100u);
}

TEST(UsedDataRemover, SeveralThreadsCanAdd) {
  SlowStore store;
  store.Open();
  UsedDataRemover remover(store.deleter(), /*max_waiting=*/3);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&remover, t] {
      for (int i = 0; i < 200; ++i) remover.Add(absl::StrCat(t, "_", i));
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(remover.Close(), IsOk());
  EXPECT_EQ(remover.deleted(), 800);
  EXPECT_EQ(store.asked().size(), 800u);
}

}  // namespace
}  // namespace ding
