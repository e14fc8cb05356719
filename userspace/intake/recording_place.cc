// SPDX-License-Identifier: Apache-2.0
#include "intake/recording_place.h"

#include "intake/amounts.h"

namespace forestall::intake {
namespace {

// Equal to recording::kSizeMin, which this layer must not include; a test compares them.
constexpr Bytes kSizeMin = mib(1);

}  // namespace

void check_recording(const v1::Config& given, Config& out, Report& report) {
  if (!given.has_recording()) return;
  RecordingPlace place;
  place.directory = given.recording().directory();
  if (!given.recording().has_directory()) {
    report.missing("recording", "directory", "set it to an absolute path");
  } else if (!place.directory.starts_with('/')) {
    report.error("recording.directory",
                 "'directory' must be an absolute path, found '" + place.directory + "'");
  }
  if (given.recording().has_max_size()) {
    const std::string& written = given.recording().max_size();
    const auto size = report.take(parse_bytes(written), "recording.maxSize", "maxSize");
    report.doubt(written, "recording.maxSize");
    if (size && *size < kSizeMin) {
      report.error("recording.maxSize", "'maxSize' must be at least 1Mi, found '" + written + "'");
    }
    place.max_size = size.value_or(place.max_size);
  }
  out.recording = std::move(place);
}

}  // namespace forestall::intake
