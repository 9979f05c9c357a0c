#include "ding_worker/replay_buffer/storage/buffer_checks.h"

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/spec.h"

namespace ding {
namespace {

constexpr absl::string_view kCapacityRows = "capacity_rows";
constexpr absl::string_view kCapacityBytes = "capacity_bytes";

}  // namespace

void AppendRingProblems(const RowCapacity& capacity, int64_t nstep, double gamma,
                        std::vector<std::string>* problems) {
  if (capacity.bytes.has_value()) {
    if (*capacity.bytes < 1) {
      problems->push_back(
          absl::StrCat("replay_buffer_bytes is ", *capacity.bytes, ", expected at least 1"));
    }
  } else if (capacity.rows < 1 || capacity.rows > kMaxCapacityRows) {
    problems->push_back(absl::StrCat("replay_buffer_size is ", capacity.rows, ", expected 1 to ",
                                     kMaxCapacityRows));
  }
  if (nstep < 1) problems->push_back(absl::StrCat("nstep is ", nstep, ", expected at least 1"));
  if (!(gamma >= 0 && gamma <= 1)) {
    problems->push_back(absl::StrCat("discount_factor is ", gamma, ", expected 0 to 1"));
  }
}

absl::Status CheckSampleRequest(int64_t size, const SampleOptions& options) {
  if (size < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("sample size is ", size, ", expected at least 1"));
  }
  if (options.newest.has_value() && *options.newest < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("sample from the newest ", *options.newest, " rows, expected at least 1"));
  }
  if (options.range.has_value() && options.range->end.has_value()) {
    const int64_t begin = options.range->begin;
    const int64_t end = *options.range->end;
    const bool from_same_side = (begin < 0) == (end < 0);
    if (from_same_side ? begin >= end : end == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("sample from range ", AgeRangeText(*options.range),
                       ", which is always empty; expected a begin before the end (0 is the oldest, "
                       "-1 the newest)"));
    }
  }
  return absl::OkStatus();
}

std::string AgeRangeText(const AgeRange& range) {
  return absl::StrCat("[", range.begin, ", ", range.end.has_value() ? absl::StrCat(*range.end) : "",
                      ")");
}

absl::Status CheckSavedType(StateReader* reader, absl::string_view expected) {
  DING_ASSIGN_OR_RETURN(const std::string found, reader->ReadString("type"));
  if (found == expected) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "saved by a buffer of type '", absl::CHexEscape(found), "', expected '", expected, "'"));
}

absl::Status CheckSavedInt(StateReader* reader, absl::string_view name, int64_t expected) {
  DING_ASSIGN_OR_RETURN(const int64_t found, reader->ReadInt(name));
  if (found == expected) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("saved ", name, " is ", found, ", expected ", expected));
}

absl::Status CheckSavedVersion(StateReader* reader, int64_t expected) {
  DING_ASSIGN_OR_RETURN(const int64_t found, reader->ReadInt("version"));
  if (found == expected) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("its state has version ", found, ", this program reads version ", expected));
}

absl::Status SaveCapacity(const RowCapacity& capacity, StateWriter* writer) {
  return capacity.bytes.has_value() ? writer->WriteInt(kCapacityBytes, *capacity.bytes)
                                    : writer->WriteInt(kCapacityRows, capacity.rows);
}

absl::Status CheckSavedCapacity(StateReader* reader, const RowCapacity& expected) {
  const bool saved_bytes = reader->Info(kCapacityBytes).ok();
  if (saved_bytes != expected.bytes.has_value() &&
      (saved_bytes || reader->Info(kCapacityRows).ok())) {
    return absl::InvalidArgumentError(
        absl::StrCat("saved capacity is in ", saved_bytes ? "bytes" : "rows", ", expected in ",
                     saved_bytes ? "rows (replay_buffer_size)" : "bytes (replay_buffer_bytes)"));
  }
  return saved_bytes ? CheckSavedInt(reader, kCapacityBytes, *expected.bytes)
                     : CheckSavedInt(reader, kCapacityRows, expected.rows);
}

absl::Status CheckSameRows(const RowStore& expected, const RowStore& found) {
  DING_RETURN_IF_ERROR(CheckSameLayout(*expected.spec(), *found.spec(), "saved rows"));
  if (expected.obs_fields() == found.obs_fields()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("saved rows have ", found.obs_fields(),
                                                 " observation fields, expected ",
                                                 expected.obs_fields()));
}

absl::Status CheckPushCount(int64_t push_count, const RowStore* store) {
  const int64_t rows = store == nullptr ? 0 : store->size();
  const int64_t ids = store == nullptr ? 0 : store->end_id();
  if (push_count >= rows && push_count <= ids) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("saved push_count is ", push_count, ", expected ", rows, " to ", ids));
}

}  // namespace ding
