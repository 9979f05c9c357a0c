// The parts that tests of journals share: functions that make and describe records, and random
// records with a model of what a journal must hold.
//
// Threads: thread-compatible; a test uses them in its own thread.
#ifndef DING_WORKER_COORDINATOR_TESTING_JOURNAL_FIXTURE_H_
#define DING_WORKER_COORDINATOR_TESTING_JOURNAL_FIXTURE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/coordinator/journal/journal.h"
#include "ding_worker/coordinator/journal/journal.pb.h"
#include "ding_worker/coordinator/journal/sqlite_log.h"
#include "ding_worker/interaction/store/store.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {

inline JournalRecord Push(int64_t chunk, const std::string& buffer = "buffer_0") {
  JournalRecord record;
  record.mutable_push()->set_buffer_id(buffer);
  record.mutable_push()->add_chunk(chunk);
  record.mutable_push()->set_items(std::string(40, static_cast<char>(chunk)));
  return record;
}

inline JournalRecord Removed(const std::vector<int64_t>& chunks) {
  JournalRecord record;
  for (const int64_t chunk : chunks) record.mutable_removed()->add_chunk(chunk);
  return record;
}

inline JournalRecord State(int32_t incarnation) {
  JournalRecord record;
  record.mutable_state()->set_incarnation(incarnation);
  record.mutable_state()->add_buffer()->set_buffer_id("buffer_0");
  return record;
}

// Returns "state 3" and "push 7 8" for each push, with its live chunks.
inline std::vector<std::string> Read(const Journal& journal) {
  std::vector<std::string> said;
  const auto run = journal.ReadRun();
  EXPECT_THAT(run, IsOk());
  if (run.ok() && run->has_value()) {
    said.push_back(absl::StrCat("state ", (*run)->state.incarnation()));
  }
  EXPECT_THAT(journal.ReadPushes([&](const PushRecord& push) {
    std::string text = "push";
    for (const int64_t chunk : push.chunk()) {
      if (journal.IsLive(chunk)) absl::StrAppend(&text, " ", chunk);
    }
    said.push_back(text);
    return absl::OkStatus();
  }),
              IsOk());
  return said;
}

// A folder for one test. The destructor removes it.
class Folder {
 public:
  Folder() {
    std::string path = absl::StrCat(testing::TempDir(), "/journal_XXXXXX");
    path_ = mkdtemp(path.data());
  }
  ~Folder() { RemoveRecursively(path_).IgnoreError(); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// The content of a journal: the chunks that were pushed and not removed, and the last state.
struct Said {
  std::vector<int64_t> live;
  int32_t state = 0;

  void Add(const JournalRecord& record) {
    if (record.has_state()) state = record.state().incarnation();
    live.insert(live.end(), record.push().chunk().begin(), record.push().chunk().end());
    for (const int64_t chunk : record.removed().chunk()) {
      live.erase(std::remove(live.begin(), live.end(), chunk), live.end());
    }
  }
  bool operator==(const Said& other) const { return live == other.live && state == other.state; }
};

inline std::ostream& operator<<(std::ostream& out, const Said& said) {
  return out << "state " << said.state << ", live: " << testing::PrintToString(said.live);
}

inline Said SaidBy(const Journal& journal) {
  Said said;
  const auto run = journal.ReadRun();
  EXPECT_THAT(run, IsOk());
  if (run.ok() && run->has_value()) said.state = (*run)->state.incarnation();
  EXPECT_THAT(journal.ReadPushes([&](const PushRecord& push) {
    for (const int64_t chunk : push.chunk()) {
      if (journal.IsLive(chunk)) said.live.push_back(chunk);
    }
    return absl::OkStatus();
  }),
              IsOk());
  return said;
}

// Makes random pushes, removals and states. Each chunk is pushed once.
class Records {
 public:
  explicit Records(Rng* rng) : rng_(*rng) {}

  std::vector<JournalRecord> Next(const Said& said) {
    std::vector<JournalRecord> records;
    for (uint64_t i = 0; i <= rng_.UniformInt(3); ++i) {
      switch (said.live.empty() || i > 0 ? 0 : rng_.UniformInt(3)) {
        case 0:
          records.push_back(Push(++chunk_));
          break;
        case 1:
          records.push_back(State(++state_));
          break;
        default:
          records.push_back(Removed({said.live[rng_.UniformInt(said.live.size())]}));
      }
    }
    return records;
  }
  JournalRecord NextState() { return State(++state_); }

 private:
  Rng& rng_;
  int64_t chunk_ = 0;
  int32_t state_ = 0;
};

inline uint64_t NewSeed() { return static_cast<uint64_t>(absl::ToUnixNanos(absl::Now())); }

// Opens the journal in a file.
inline absl::StatusOr<std::unique_ptr<Journal>> OpenJournalFile(const std::string& path,
                                                                const std::string& run = "") {
  LogOptions options;
  options.run = run;
  options.sync = LogSync::kNone;
  absl::StatusOr<std::unique_ptr<SqliteLog>> log = SqliteLog::Open(path, options);
  if (!log.ok()) return log.status();
  return Journal::Open(*std::move(log));
}

}  // namespace ding

#endif  // DING_WORKER_COORDINATOR_TESTING_JOURNAL_FIXTURE_H_
