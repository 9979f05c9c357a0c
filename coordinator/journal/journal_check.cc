#include "ding_worker/coordinator/journal/journal_check.h"

#include <algorithm>
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
#include "ding_worker/coordinator/journal/recovery.h"
#include "ding_worker/coordinator/log/sqlite_log.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/wire.h"
#include "ding_worker/interaction/store/log.h"

namespace ding {
namespace {

constexpr char kWal[] = "-wal";  // beside a file of SQLite, until it is closed
constexpr size_t kGroupRecords = 1000;
constexpr int64_t kMaxJournalBytes = int64_t{1} << 36;

struct Checked {
  JournalReport report;
  std::string run;
  std::vector<std::string> records;
};

absl::StatusOr<JournalSummary> Summarize(const std::vector<std::string>& records) {
  const auto read = [&records](const Journal::Visitor& visit) -> absl::Status {
    for (const std::string& bytes : records) {
      DING_ASSIGN_OR_RETURN(const JournalRecord record, ParseJournalRecord(bytes));
      DING_RETURN_IF_ERROR(visit(record));
    }
    return absl::OkStatus();
  };
  JournalSummary summary;
  DING_ASSIGN_OR_RETURN(const std::optional<RecoveredRun> run, ReadJournal(read));
  summary.empty = !run.has_value();
  if (summary.empty) return summary;
  summary.envstep = run->state.envstep();
  summary.train_iter = run->state.train_iter();
  summary.policy_version = run->state.policy_version();
  summary.incarnation = run->state.incarnation();
  for (const PolicyRecord& policy : run->state.policy()) summary.policies += policy.stored_size();
  DING_RETURN_IF_ERROR(read([&](const JournalRecord& record) -> absl::Status {
    if (!record.has_push() || run->FindBuffer(record.push().buffer_id()) == nullptr) {
      return absl::OkStatus();
    }
    DING_ASSIGN_OR_RETURN(const Batch items, DecodeBatch(record.push().items()));
    DING_ASSIGN_OR_RETURN(const Batch live, KeepChunks(items, [&run](int64_t chunk) {
                            return run->removed_chunks.count(chunk) == 0;
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

absl::StatusOr<Checked> Check(const std::string& path) {
  Checked checked;
  JournalReport& report = checked.report;
  report.path = path;
  DING_ASSIGN_OR_RETURN(report.user, LogFileUser(path));
  const char* const temporary = std::getenv("TMPDIR");
  DING_ASSIGN_OR_RETURN(
      const std::string folder,
      CreateTemporaryDirectory(JoinPath(temporary == nullptr ? "/tmp" : temporary, "journal")));
  const auto remove = absl::MakeCleanup([&folder] { RemoveRecursively(folder).IgnoreError(); });
  const std::string copy = JoinPath(folder, "journal");
  DING_RETURN_IF_ERROR(CopyFile(path, copy, &report.size_bytes));
  DING_RETURN_IF_ERROR(
      CopyFile(absl::StrCat(path, kWal), absl::StrCat(copy, kWal), &report.size_bytes));
  absl::StatusOr<std::unique_ptr<SqliteLog>> log = SqliteLog::OpenCopy(copy, path);
  DING_RETURN_IF_ERROR(log.status());
  report.damage = (*log)->CheckIntegrity();
  checked.run = (*log)->run();
  int64_t unparsed = 0;
  DING_ASSIGN_OR_RETURN(report.damaged_places,
                        (*log)->ReadWhole([&](int64_t, absl::string_view bytes) {
                          if (ParseJournalRecord(bytes).ok()) {
                            checked.records.emplace_back(bytes);
                          } else {
                            ++unparsed;
                          }
                          return absl::OkStatus();
                        }));
  report.damaged_places += unparsed;
  report.records = static_cast<int64_t>(checked.records.size());
  absl::StatusOr<JournalSummary> summary = Summarize(checked.records);
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

absl::Status WriteRecords(const Checked& checked, const std::string& path) {
  DING_ASSIGN_OR_RETURN(const std::unique_ptr<SqliteLog> log, SqliteLog::Open(path, {checked.run}));
  for (size_t i = 0; i < checked.records.size(); i += kGroupRecords) {
    const size_t end = std::min(checked.records.size(), i + kGroupRecords);
    Log::Change change;
    for (size_t k = i; k < end; ++k) change.append.emplace_back(checked.records[k]);
    DING_RETURN_IF_ERROR(log->Commit(change).status());
  }
  return log->Sync();
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
  DING_ASSIGN_OR_RETURN(Checked checked, Check(path));
  return std::move(checked.report);
}

absl::StatusOr<std::string> RepairJournal(const std::string& path) {
  DING_ASSIGN_OR_RETURN(const Checked checked, Check(path));
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
  DING_ASSIGN_OR_RETURN(const std::string folder,
                        CreateTemporaryDirectory(absl::StrCat(path, ".repair")));
  const auto remove = absl::MakeCleanup([&folder] { RemoveRecursively(folder).IgnoreError(); });
  const std::string repaired = JoinPath(folder, "journal");
  DING_RETURN_IF_ERROR(WriteRecords(checked, repaired));
  const std::string old = NameOfOld(path);
  DING_RETURN_IF_ERROR(RenamePath(path, old));
  // SQLite must not take what is beside the old file for a part of the new one.
  if (PathExists(absl::StrCat(path, kWal))) {
    DING_RETURN_IF_ERROR(RenamePath(absl::StrCat(path, kWal), absl::StrCat(old, kWal)));
  }
  DING_RETURN_IF_ERROR(RenamePath(repaired, path));
  return absl::StrCat(path, " has ", report.records,
                      " records now; those that could not be read are left out\nthe old file is ",
                      old, "\na resume finds: ", Describe(report.summary), "\n");
}

}  // namespace ding
