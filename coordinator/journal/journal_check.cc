#include "ding_worker/coordinator/journal/journal_check.h"

#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/coordinator/journal/journal.h"
#include "ding_worker/coordinator/journal/journal.pb.h"
#include "ding_worker/coordinator/journal/sqlite_log.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/wire.h"
#include "ding_worker/interaction/store/store.h"

namespace ding {
namespace {

constexpr char kWal[] = "-wal";     // beside a file of SQLite, until it is closed
constexpr char kWhole[] = "whole";  // a new journal
constexpr size_t kGroupRecords = 1000;
constexpr int64_t kMaxJournalBytes = int64_t{1} << 36;

// What was found, and a new journal with the records that are whole.
struct Checked {
  JournalReport report;
  std::unique_ptr<Journal> whole;
};

absl::StatusOr<JournalSummary> Summarize(const Journal& journal) {
  JournalSummary summary;
  DING_ASSIGN_OR_RETURN(const std::optional<RecordedRun> run, journal.ReadRun());
  summary.empty = !run.has_value();
  if (summary.empty) return summary;
  summary.envstep = run->state.envstep();
  summary.train_iter = run->state.train_iter();
  summary.policy_version = run->state.policy_version();
  summary.incarnation = run->state.incarnation();
  for (const PolicyRecord& policy : run->state.policy()) summary.policies += policy.stored_size();
  DING_RETURN_IF_ERROR(journal.ReadPushes([&](const PushRecord& push) -> absl::Status {
    DING_ASSIGN_OR_RETURN(const Batch items, DecodeBatch(push.items()));
    DING_ASSIGN_OR_RETURN(const Batch live, KeepChunks(items, [&journal](int64_t chunk) {
                            return journal.IsLive(chunk);
                          }));
    summary.rows += live.rows();
    return absl::OkStatus();
  }));
  return summary;
}

absl::Status CopyFile(const std::string& from, const std::string& to, int64_t* size) {
  if (!PathExists(from)) return absl::OkStatus();
  DING_ASSIGN_OR_RETURN(const std::string bytes, ReadFile(from, kMaxJournalBytes));
  *size += static_cast<int64_t>(bytes.size());
  std::ofstream file(to, std::ios::binary);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  if (file.flush().good()) return absl::OkStatus();
  return ErrnoStatus(errno, absl::StrCat("cannot write '", to, "'"));
}

// Copies the records and the parts of the snapshot that are whole. Counts what is not.
absl::Status CopyWhole(SqliteLog* from, SqliteLog* to, int64_t* damaged_places) {
  int64_t unparsed = 0;
  std::vector<std::string> records;
  const auto write = [to, &records]() -> absl::Status {
    Log::Change change;
    change.append = {records.begin(), records.end()};
    DING_RETURN_IF_ERROR(to->Commit(change).status());
    records.clear();
    return absl::OkStatus();
  };
  DING_ASSIGN_OR_RETURN(*damaged_places, from->ReadWhole([&](int64_t, absl::string_view bytes) {
    if (DecodeJournalRecord(bytes).ok()) {
      records.emplace_back(bytes);
    } else {
      ++unparsed;
    }
    return records.size() < kGroupRecords ? absl::OkStatus() : write();
  }));
  DING_RETURN_IF_ERROR(write());
  const absl::StatusOr<Log::Snapshot> read = from->ReadSnapshot();
  if (!read.ok()) ++unparsed;
  const Log::Snapshot snapshot = read.value_or(Log::Snapshot());
  Log::Change change;
  for (const auto& part : snapshot) {
    if (DecodeJournalRecord(part.second).ok()) {
      change.snapshot.emplace_back(part);
    } else {
      ++unparsed;
    }
  }
  *damaged_places += unparsed;
  return to->Commit(change).status();
}

// Reads a copy of the file in `folder`, and makes folder/whole there.
absl::StatusOr<Checked> Check(const std::string& path, const std::string& folder) {
  Checked checked;
  JournalReport& report = checked.report;
  report.path = path;
  DING_ASSIGN_OR_RETURN(report.user, LogFileUser(path));
  const std::string copy = JoinPath(folder, "copy");
  DING_RETURN_IF_ERROR(CopyFile(path, copy, &report.size_bytes));
  DING_RETURN_IF_ERROR(
      CopyFile(absl::StrCat(path, kWal), absl::StrCat(copy, kWal), &report.size_bytes));
  DING_ASSIGN_OR_RETURN(const std::unique_ptr<SqliteLog> log, SqliteLog::OpenCopy(copy, path));
  report.damage = log->CheckIntegrity();
  DING_ASSIGN_OR_RETURN(std::unique_ptr<SqliteLog> whole,
                        SqliteLog::Open(JoinPath(folder, kWhole), {log->run()}));
  DING_RETURN_IF_ERROR(CopyWhole(log.get(), whole.get(), &report.damaged_places));
  DING_ASSIGN_OR_RETURN(checked.whole, Journal::Open(std::move(whole)));
  report.records = checked.whole->records();
  absl::StatusOr<JournalSummary> summary = Summarize(*checked.whole);
  if (summary.ok()) {
    report.summary = *std::move(summary);
  } else {
    report.summary.status = summary.status();
  }
  return checked;
}

std::string Describe(const JournalSummary& summary) {
  if (!summary.status.ok()) return absl::StrCat(summary.status.message());
  if (summary.empty) return "nothing: the run begins anew";
  return absl::StrCat(summary.rows, " rows, ", summary.envstep, " env steps, ", summary.train_iter,
                      " train iterations, policy version ", summary.policy_version, " (",
                      summary.policies, " stored), incarnation ", summary.incarnation);
}

// Returns a name beside the file that nothing has.
std::string NameOfOld(const std::string& path) {
  for (int64_t number = 1;; ++number) {
    std::string name = absl::StrCat(path, ".damaged");
    if (number > 1) absl::StrAppend(&name, ".", number);
    if (!PathExists(name) && !PathExists(absl::StrCat(name, kWal))) return name;
  }
}

}  // namespace

std::string JournalReport::ToString() const {
  std::string text = absl::StrCat(path, ": journal of version ", SqliteLog::kVersion, ", ",
                                  size_bytes, " bytes, ", records, " whole records\n");
  if (!damage.empty()) absl::StrAppend(&text, "  damaged: ", damage, "\n");
  if (damaged_places > 0) {
    absl::StrAppend(&text, "  damaged: records cannot be read in ", damaged_places, " places\n");
  }
  if (user.has_value()) {
    absl::StrAppend(&text, "  process ", *user,
                    " is using it: what it writes meanwhile may look like damage\n");
  }
  absl::StrAppend(&text,
                  whole() ? "  a resume finds: "
                          : "  a resume refuses it\n  after `ctl journal repair` it finds: ",
                  Describe(summary), "\n");
  return text;
}

absl::StatusOr<JournalReport> CheckJournal(const std::string& path) {
  const char* const temporary = std::getenv("TMPDIR");
  DING_ASSIGN_OR_RETURN(
      const std::string folder,
      CreateTemporaryDirectory(JoinPath(temporary == nullptr ? "/tmp" : temporary, "journal")));
  const auto remove = absl::MakeCleanup([&folder] { RemoveRecursively(folder).IgnoreError(); });
  DING_ASSIGN_OR_RETURN(Checked checked, Check(path, folder));
  return std::move(checked.report);
}

absl::StatusOr<std::string> RepairJournal(const std::string& path) {
  DING_RETURN_IF_ERROR(LogFileUser(path).status());
  DING_ASSIGN_OR_RETURN(const std::string folder,
                        CreateTemporaryDirectory(absl::StrCat(path, ".repair")));
  const auto remove = absl::MakeCleanup([&folder] { RemoveRecursively(folder).IgnoreError(); });
  DING_ASSIGN_OR_RETURN(Checked checked, Check(path, folder));
  const JournalReport& report = checked.report;
  if (report.user.has_value()) {
    return absl::FailedPreconditionError(
        absl::StrCat("'", path, "' is in use by process ", *report.user, ": end that one first"));
  }
  if (report.whole()) return absl::StrCat(path, " is whole: nothing is changed\n");
  if (!report.summary.status.ok()) {
    return absl::FailedPreconditionError(
        absl::StrCat("'", path, "' is unchanged: ", report.summary.status.message()));
  }
  DING_RETURN_IF_ERROR(checked.whole->Sync());
  checked.whole.reset();
  const std::string old = NameOfOld(path);
  DING_RETURN_IF_ERROR(RenamePath(path, old));
  // SQLite must not take what is beside the old file for a part of the new one.
  if (PathExists(absl::StrCat(path, kWal))) {
    DING_RETURN_IF_ERROR(RenamePath(absl::StrCat(path, kWal), absl::StrCat(old, kWal)));
  }
  DING_RETURN_IF_ERROR(RenamePath(JoinPath(folder, kWhole), path));
  return absl::StrCat(path, " has ", report.records,
                      " records now; those that could not be read are left out\nthe old file is ",
                      old, "\na resume finds: ", Describe(report.summary), "\n");
}

}  // namespace ding
