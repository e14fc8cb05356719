// SPDX-License-Identifier: Apache-2.0
// Entries of a recording in order, from one file or from all segments of a directory.
//
// After a loss (counted by the writer, or damage), all entries up to the next key are skipped: they
// may refer to lost entries, and the policy state is unknown. The number of skipped entries is
// counted.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "messages/recording_entries.h"
#include "recording/reader.h"

namespace forestall::replay {

class RecordingInput {
 public:
  // Counters for the summary.
  struct Counts {
    std::uint64_t entries = 0;  // returned by next()
    std::uint64_t chunks = 0;
    std::uint64_t entry_bytes = 0;  // of them, uncompressed
    std::uint64_t file_bytes = 0;
    std::uint64_t lost = 0;         // entries lost by the writer
    std::uint64_t passed_over = 0;  // entries between a loss and the next key
    std::uint64_t unknown = 0;      // of kinds that this version does not support
  };

  struct InputEntry {
    messages::RecordingEntry entry;
    bool after_loss = false;  // a key: entries before it are missing
    bool new_run = false;     // a key: another run of the agent starts
  };

  // Whether `path` is a recording or a directory, which can only be one of segments.
  [[nodiscard]] static Result<bool> is_recording(const std::string& path);
  // A directory is read from its oldest segment on. Segments that cannot be opened are skipped with
  // a remark, unless it is the only one.
  [[nodiscard]] static Result<RecordingInput> open(const std::string& path);

  // The next key, evaluation, record or sample of all workloads, valid until the next call. Nothing
  // at the end. Errors: the file is not readable.
  [[nodiscard]] Result<std::optional<InputEntry>> next();

  // From now on, next() may be called again after it returned nothing: it continues with what was
  // written meanwhile. At such an end there is no remark on a file that is not closed.
  void follow() { following_ = true; }
  [[nodiscard]] bool follows() const { return following_; }
  // Whether nothing can follow: a single file, which its writer has closed.
  [[nodiscard]] bool is_over() const { return directory_.empty() && reader_.is_complete(); }

  // Of the current file.
  [[nodiscard]] const messages::RecordingFacts& facts() const { return facts_; }
  [[nodiscard]] const Counts& counts() const { return counts_; }
  // Problems of the files, one sentence each: truncation, damage, unsupported versions.
  [[nodiscard]] const std::vector<std::string>& remarks() const { return remarks_; }
  // Continues at the last key at or before the time `since_first` after the first entry, or at the
  // first key. Returns the time of the first entry. REQUIRES: is_single(), and nothing was read.
  [[nodiscard]] Result<MonotonicTime> seek(Duration since_first);
  [[nodiscard]] bool is_single() const { return files_ == 1; }

 private:
  RecordingInput(recording::Reader reader, messages::RecordingFacts facts)
      : reader_(std::move(reader)), facts_(std::move(facts)) {}

  [[nodiscard]] Result<bool> next_chunk();
  [[nodiscard]] Result<bool> next_file();
  [[nodiscard]] Result<bool> has_newer_file();
  void close_file();
  [[nodiscard]] std::optional<InputEntry> take_item(std::string_view entry);
  void remark(std::string text);

  recording::Reader reader_;
  messages::RecordingFacts facts_;
  messages::EntryDecoder decoder_;
  std::string directory_;            // of the segments; empty: a single file
  std::string name_;                 // of the current file
  std::deque<std::string> waiting_;  // paths of the files after it
  std::size_t files_ = 1;
  std::string_view raw_;  // rest of the current chunk
  std::uint64_t reported_damages_ = 0;
  bool following_ = false;
  bool begun_ = false;  // a key was returned
  bool lost_ = false;   // entries are skipped up to the next key
  bool new_run_ = true;
  Counts counts_;
  std::vector<std::string> remarks_;
};

}  // namespace forestall::replay
