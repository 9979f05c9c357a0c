#include "ding_worker/coordinator/journal/journal_check.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/coordinator/journal/journal.h"
#include "ding_worker/coordinator/journal/journal.pb.h"
#include "ding_worker/coordinator/journal/journal_file.h"
#include "ding_worker/coordinator/journal/recovery.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/wire.h"

namespace ding {
namespace {

using Kind = JournalRange::Kind;

constexpr absl::string_view kKept = ".damaged";

// Calls `visit(frame)` for each record in the whole ones of these ranges.
template <typename Visit>
absl::Status VisitRanges(int fd, const std::string& path, const std::vector<JournalRange>& ranges,
                         Visit visit) {
  for (const JournalRange& range : ranges) {
    if (range.kind != Kind::kWhole) continue;
    JournalScanner scanner(fd, path, std::max(range.begin, kJournalBegin), range.end);
    while (scanner.position() < range.end) {
      DING_ASSIGN_OR_RETURN(const std::optional<JournalFrame> frame, scanner.Next());
      if (!frame.has_value()) {
        return absl::AbortedError(absl::StrCat("'", path, "' changes while it is read"));
      }
      DING_RETURN_IF_ERROR(visit(*frame));
    }
  }
  return absl::OkStatus();
}

absl::Status VisitRecords(int fd, const std::string& path, const std::vector<JournalRange>& ranges,
                          const Journal::Visitor& visit) {
  return VisitRanges(fd, path, ranges, [&](const JournalFrame& frame) -> absl::Status {
    DING_ASSIGN_OR_RETURN(const JournalRecord record, ParseJournalRecord(frame.payload, path));
    return visit(record);
  });
}

absl::StatusOr<JournalSummary> Summarize(int fd, const std::string& path,
                                         const std::vector<JournalRange>& ranges) {
  const auto read = [&](const Journal::Visitor& visit) {
    return VisitRecords(fd, path, ranges, visit);
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

JournalSummary SummaryOf(int fd, const std::string& path, const std::vector<JournalRange>& ranges) {
  absl::StatusOr<JournalSummary> summary = Summarize(fd, path, ranges);
  if (summary.ok()) return *std::move(summary);
  JournalSummary none;
  none.status = summary.status();
  return none;
}

// Returns what is whole before the first damage: one range, or none.
std::vector<JournalRange> FirstOf(const std::vector<JournalRange>& ranges) {
  if (ranges.empty() || ranges[0].kind != Kind::kWhole) return {};
  return {ranges[0]};
}

// Returns the range of the whole groups that come next. It leaves out the rest of a group whose beginning is lost. The
// scanner stops behind the first record that cannot be parsed and sets `*unparsed`, or before what is no record.
absl::StatusOr<JournalRange> TakeGroups(const std::string& path, JournalScanner* scanner,
                                        bool* unparsed) {
  JournalRange whole;
  whole.begin = scanner->position();
  DING_ASSIGN_OR_RETURN(std::optional<JournalFrame> frame, scanner->Next());
  while (frame.has_value() && !frame->begins_group) {
    whole.begin = scanner->position();
    DING_ASSIGN_OR_RETURN(frame, scanner->Next());
  }
  whole.end = whole.begin;
  for (int64_t records = 1; frame.has_value(); ++records) {
    *unparsed = !ParseJournalRecord(frame->payload, path).ok();
    if (*unparsed) return whole;
    if (frame->ends_group) {
      whole.end = scanner->position();
      whole.records += std::exchange(records, 0);
    }
    DING_ASSIGN_OR_RETURN(frame, scanner->Next());
  }
  return whole;
}

absl::StatusOr<std::vector<JournalRange>> FindRanges(int fd, const std::string& path,
                                                     int64_t size) {
  std::vector<JournalRange> ranges;
  DING_ASSIGN_OR_RETURN(const int64_t begin, FindJournalBegin(fd, path, size));
  if (begin == 0) {
    if (size > 0) ranges.push_back({Kind::kTorn, 0, size, 0});
    return ranges;
  }
  int64_t done = 0;  // the end of the ranges that are known
  for (int64_t at = begin;;) {
    JournalScanner scanner(fd, path, at, size);
    bool unparsed = false;
    DING_ASSIGN_OR_RETURN(const JournalRange whole, TakeGroups(path, &scanner, &unparsed));
    if (done == 0 && whole.begin == begin) {
      ranges.push_back({Kind::kWhole, 0, whole.end, whole.records});
    } else {
      if (ranges.back().kind == Kind::kDamaged) {
        ranges.back().end = whole.begin;
      } else {
        ranges.push_back({Kind::kDamaged, done, whole.begin, 0});
      }
      if (whole.records > 0) ranges.push_back(whole);
    }
    done = whole.end;
    if (unparsed) {
      at = scanner.position();
      continue;
    }
    DING_ASSIGN_OR_RETURN(const JournalEnd end, ExamineJournalEnd(fd, path, scanner, size));
    if (end.records_follow) {
      at = end.end;
      continue;
    }
    if (done == size) return ranges;
    if (end.kind == JournalEnd::Kind::kTorn) {
      ranges.push_back({Kind::kTorn, done, size, 0});
    } else if (!ranges.empty() && ranges.back().kind == Kind::kDamaged) {
      ranges.back().end = size;
    } else {
      ranges.push_back({Kind::kDamaged, done, size, 0});
    }
    return ranges;
  }
}

std::string Describe(const JournalRange& range) {
  const std::string where = absl::StrCat("  bytes ", range.begin, " to ", range.end, ": ");
  switch (range.kind) {
    case Kind::kWhole:
      return absl::StrCat(where, range.records, " records\n");
    case Kind::kTorn:
      return absl::StrCat(where, range.end - range.begin,
                          " bytes of a torn end, as a crash leaves it: a resume drops them\n");
    case Kind::kDamaged:
      return absl::StrCat(where, range.end - range.begin, " bytes that are not records: damaged\n");
  }
  return where;
}

std::string Describe(const JournalSummary& summary) {
  if (!summary.status.ok()) return absl::StrCat(summary.status.message());
  if (summary.empty) return "nothing: the run begins anew";
  return absl::StrCat(summary.rows, " rows, ", summary.envstep, " env steps, ", summary.train_iter,
                      " train iterations, policy version ", summary.policy_version, " (",
                      summary.policies, " stored), incarnation ", summary.incarnation);
}

// Gives the old file a second name, which it returns. A link, so that the journal has a file at each moment.
absl::StatusOr<std::string> KeepOld(const std::string& path) {
  for (int64_t number = 1;; ++number) {
    std::string kept = absl::StrCat(path, kKept);
    if (number > 1) absl::StrAppend(&kept, ".", number);
    if (link(path.c_str(), kept.c_str()) == 0) return kept;
    if (errno != EEXIST) return ErrnoStatus(errno, absl::StrCat("cannot make '", kept, "'"));
  }
}

absl::Status WriteRecords(int fd, const std::string& path, const std::vector<JournalRange>& ranges,
                          AtomicFileWriter* writer) {
  DING_RETURN_IF_ERROR(writer->Append(kJournalMagic));
  int64_t place = kJournalBegin;
  std::vector<std::string> group;
  return VisitRanges(fd, path, ranges, [&](const JournalFrame& frame) {
    group.emplace_back(frame.payload);
    if (!frame.ends_group) return absl::OkStatus();
    std::string frames;
    AppendJournalGroup(std::vector<absl::string_view>(group.begin(), group.end()), &frames);
    group.clear();
    PlaceJournalFrames(place, &frames);
    place += static_cast<int64_t>(frames.size());
    return writer->Append(frames);
  });
}

absl::StatusOr<JournalReport> Check(const OpenFile& file, const std::string& path) {
  JournalReport report;
  report.path = path;
  report.size_bytes = file.size_bytes();
  DING_ASSIGN_OR_RETURN(report.ranges, FindRanges(file.fd(), path, file.size_bytes()));
  report.first = SummaryOf(file.fd(), path, FirstOf(report.ranges));
  report.all = SummaryOf(file.fd(), path, report.ranges);
  return report;
}

}  // namespace

bool JournalReport::whole() const {
  return std::all_of(ranges.begin(), ranges.end(),
                     [](const JournalRange& range) { return range.kind == Kind::kWhole; });
}

bool JournalReport::damaged() const {
  return std::any_of(ranges.begin(), ranges.end(),
                     [](const JournalRange& range) { return range.kind == Kind::kDamaged; });
}

int64_t JournalReport::records() const {
  int64_t records = 0;
  for (const JournalRange& range : ranges) records += range.records;
  return records;
}

std::string JournalReport::ToString() const {
  std::string text = absl::StrCat(path, ": journal of version ", kJournalVersion, ", ", size_bytes,
                                  " bytes, ", records(), " whole records\n");
  for (const JournalRange& range : ranges) text += Describe(range);
  if (user.has_value()) {
    absl::StrAppend(&text, "  process ", *user,
                    " is using it: its last record may be half written\n");
  }
  if (!damaged()) {
    absl::StrAppend(&text, "  a resume finds: ", Describe(first), "\n");
    return text;
  }
  absl::StrAppend(&text,
                  "  a resume refuses it\n  after `ctl journal repair` it finds: ", Describe(first),
                  "\n  after `ctl journal repair --skip_damage`: ", Describe(all), "\n");
  return text;
}

absl::StatusOr<JournalReport> CheckJournal(const std::string& path) {
  DING_ASSIGN_OR_RETURN(const OpenFile file, OpenRegularFile(path, O_RDONLY));
  DING_ASSIGN_OR_RETURN(JournalReport report, Check(file, path));
  report.user = JournalFileUser(file.fd());
  return report;
}

absl::StatusOr<std::string> RepairJournal(const std::string& path, bool skip_damage) {
  DING_ASSIGN_OR_RETURN(const OpenFile file, OpenRegularFile(path, O_RDWR));
  DING_RETURN_IF_ERROR(LockJournalFile(file.fd(), path));
  DING_ASSIGN_OR_RETURN(const JournalReport report, Check(file, path));
  if (report.whole()) return absl::StrCat(path, " is whole: nothing is changed\n");
  const JournalSummary& summary = skip_damage ? report.all : report.first;
  if (!summary.status.ok()) {
    const bool skipping_helps = !skip_damage && report.all.status.ok();
    return absl::FailedPreconditionError(absl::StrCat(
        "'", path, "' is unchanged: among the records to keep, ", summary.status.message(),
        skipping_helps ? "; --skip_damage also keeps the records behind the damage" : ""));
  }
  const std::vector<JournalRange> taken = skip_damage ? report.ranges : FirstOf(report.ranges);
  int64_t records = 0;
  int64_t bytes = 0;
  for (const JournalRange& range : taken) {
    records += range.records;
    if (range.kind == Kind::kWhole) bytes += range.end - range.begin;
  }
  DING_ASSIGN_OR_RETURN(const std::unique_ptr<AtomicFileWriter> writer,
                        AtomicFileWriter::Create(path));
  DING_RETURN_IF_ERROR(WriteRecords(file.fd(), path, taken, writer.get()));
  DING_ASSIGN_OR_RETURN(const std::string kept, KeepOld(path));
  DING_RETURN_IF_ERROR(writer->Commit());
  return absl::StrCat(path, " has ", records, " records now; ", report.size_bytes - bytes,
                      " bytes are left out, with ", report.records() - records,
                      " whole records among them\nthe old file is ", kept,
                      "\na resume finds: ", Describe(summary), "\n");
}

}  // namespace ding
