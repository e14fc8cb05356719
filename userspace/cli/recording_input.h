// SPDX-License-Identifier: Apache-2.0
// Entries of a recording in their order: of one file, or of all segments of a directory.
//
// After a loss (what the writer counted, or what is damaged) nothing is told up to the next key:
// what refers to what is missing, and what a policy made of it, cannot be known. How much was
// passed over so is counted.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/recording_entries.h"
#include "base/result.h"
#include "recording/reader.h"

namespace forestall::cli {

class RecordingInput {
 public:
  // What is there to be told at the end.
  struct Counts {
    std::uint64_t entries = 0;  // told
    std::uint64_t chunks = 0;
    std::uint64_t entry_bytes = 0;  // of them, unpacked
    std::uint64_t file_bytes = 0;
    std::uint64_t lost = 0;         // entries that the writer had no room for
    std::uint64_t passed_over = 0;  // entries between a loss and the next key
    std::uint64_t unknown = 0;      // of kinds that this version does not know
  };

  struct Item {
    api::RecordingEntry entry;
    bool after_loss = false;  // a key: something is missing before it
    bool new_run = false;     // a key: another run of the agent began
  };

  // Whether `path` is a recording, or a directory, which cannot be anything else that is read here.
  [[nodiscard]] static Result<bool> is_recording(const std::string& path);
  // A directory is read from its oldest segment on; segments that cannot be opened are told and
  // passed over, if it is not the only one.
  [[nodiscard]] static Result<RecordingInput> open(const std::string& path);

  // The next key, look, record or survey; nothing at the end. Errors: it cannot be read any more.
  // Valid until the next call.
  [[nodiscard]] Result<std::optional<Item>> next();

  // Of the file that is being read.
  [[nodiscard]] const api::RecordingFacts& facts() const { return facts_; }
  [[nodiscard]] const Counts& counts() const { return counts_; }
  // What is wrong with the files, for people, one a line: where one is cut, damaged, foreign.
  [[nodiscard]] const std::vector<std::string>& remarks() const { return remarks_; }
  // Goes on at the last key at or before the time that is so long after the first entry, or at the
  // first one; returns when the first entry was. REQUIRES: is_single(), and nothing was read.
  [[nodiscard]] Result<MonotonicTime> seek(Duration since_first);
  [[nodiscard]] bool is_single() const { return files_ == 1; }

 private:
  RecordingInput(recording::Reader reader, api::RecordingFacts facts)
      : reader_(std::move(reader)), facts_(std::move(facts)) {}

  [[nodiscard]] Result<bool> next_chunk();
  [[nodiscard]] Result<bool> next_file();
  void close_file();
  [[nodiscard]] std::optional<Item> take_item(std::string_view entry);
  void remark(std::string text);

  recording::Reader reader_;
  api::RecordingFacts facts_;
  api::EntryDecoder decoder_;
  std::string name_;                 // of the file that is being read
  std::deque<std::string> waiting_;  // paths of the files behind it
  std::size_t files_ = 1;
  std::string_view raw_;  // of the present chunk, what is left
  std::uint64_t told_damages_ = 0;
  bool begun_ = false;  // a key was told
  bool lost_ = false;   // entries are passed over up to the next key
  bool new_run_ = true;
  Counts counts_;
  std::vector<std::string> remarks_;
};

}  // namespace forestall::cli
