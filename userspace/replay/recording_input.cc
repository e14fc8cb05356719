// SPDX-License-Identifier: Apache-2.0
#include "replay/recording_input.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <utility>

#include "recording/segments.h"

namespace forestall::replay {
namespace {

using recording::Reader;

// Bounds the remarks on a file with many damaged places.
constexpr std::size_t kRemarksMax = 20;

bool is_directory(const std::string& path) {
  struct stat file {};
  return ::stat(path.c_str(), &file) == 0 && S_ISDIR(file.st_mode);
}

std::uint64_t number_of(const std::string& segment) {
  return recording::segment_number(segment.substr(segment.find_last_of('/') + 1)).value_or(0);
}

// Whether segment `after` directly follows `before`; segments between them may have been removed.
bool is_next(const std::string& before, const std::string& after) {
  return number_of(after) == number_of(before) + 1;
}

Result<std::deque<std::string>> segments_of(const std::string& directory) {
  std::deque<std::string> paths;
  for (const std::string& name : TRY(recording::segment_names(directory))) {
    paths.push_back(directory + "/" + name);
  }
  return paths;
}

}  // namespace

Result<bool> RecordingInput::is_recording(const std::string& path) {
  if (is_directory(path)) return true;
  return Reader::is_recording(path);
}

Result<RecordingInput> RecordingInput::open(const std::string& path) {
  const bool directory = is_directory(path);
  std::deque<std::string> paths{path};
  if (directory) paths = TRY(segments_of(path));
  if (paths.empty()) return error(path + ": contains no recording");
  std::vector<std::string> remarks;
  for (;;) {
    const std::string first = std::move(paths.front());
    paths.pop_front();
    auto reader = Reader::open(first);
    auto facts = reader ? messages::decode_facts(reader->header().facts) : reader.error();
    if (!facts) {
      const Error problem = reader ? facts.error().in(first) : reader.error();
      if (paths.empty()) return problem;
      remarks.push_back(problem.text());
      continue;
    }
    RecordingInput input(std::move(*reader), std::move(*facts));
    if (directory) input.directory_ = path;
    input.name_ = first;
    input.files_ = paths.size() + 1;
    input.waiting_ = std::move(paths);
    input.remarks_ = std::move(remarks);
    return input;
  }
}

Result<std::optional<RecordingInput::InputEntry>> RecordingInput::next() {
  for (;;) {
    while (!raw_.empty()) {
      const auto entry = recording::take_entry(raw_);
      if (!entry) {
        remark("a chunk ends within an entry");
        lost_ = true;
        raw_ = {};
        break;
      }
      auto item = take_item(*entry);
      if (item) return item;
    }
    if (!TRY(next_chunk())) return std::optional<InputEntry>();
  }
}

// Nothing: the entry is skipped.
std::optional<RecordingInput::InputEntry> RecordingInput::take_item(std::string_view bytes) {
  auto entry = decoder_.decode(bytes);
  if (!entry) {
    // Entries after a loss may refer to lost entries.
    if (!lost_) remark("an entry cannot be read: " + entry.error().text());
    lost_ = true;
    ++counts_.passed_over;
    return std::nullopt;
  }
  if (std::holds_alternative<messages::UnknownEntry>(*entry)) {
    ++counts_.unknown;
    return std::nullopt;
  }
  const bool is_key = std::holds_alternative<messages::KeyEntry>(*entry);
  if (!is_key && (lost_ || !begun_)) {
    ++counts_.passed_over;
    return std::nullopt;
  }
  ++counts_.entries;
  if (std::holds_alternative<messages::SubjectEntry>(*entry)) return std::nullopt;
  InputEntry item;
  item.entry = std::move(*entry);
  if (is_key) {
    item.after_loss = std::exchange(lost_, false);
    item.new_run = std::exchange(new_run_, false);
    begun_ = true;
  }
  return item;
}

Result<bool> RecordingInput::next_chunk() {
  for (;;) {
    const auto chunk = TRY(reader_.next());
    for (; reported_damages_ < reader_.damages().size(); ++reported_damages_) {
      const recording::DamagedRange& damage = reader_.damages()[reported_damages_];
      remark(
          fmt::format("damaged at {}, {} bytes: {}", damage.offset, damage.bytes, damage.problem));
      lost_ = true;
    }
    if (!chunk) {
      if (following_) {
        // In this order: a writer closes a segment before it creates the next one.
        const bool newer = TRY(has_newer_file());
        if (TRY(reader_.refresh())) continue;
        if (!newer) return false;
      }
      close_file();
      if (!TRY(next_file())) return false;
      continue;
    }
    ++counts_.chunks;
    counts_.entry_bytes += chunk->header.raw_size;
    counts_.lost += chunk->header.lost_entries;
    if (chunk->after_loss) {
      lost_ = true;
      decoder_.forget();
    }
    raw_ = chunk->raw;
    return true;
  }
}

// Also lists the segments that were created after the last one that is listed.
Result<bool> RecordingInput::has_newer_file() {
  if (!waiting_.empty() || directory_.empty()) return !waiting_.empty();
  std::deque<std::string> paths = TRY(segments_of(directory_));
  // The last one may not have its header yet.
  if (!paths.empty() && !Reader::open(paths.back())) paths.pop_back();
  const auto newer = std::ranges::find_if(
      paths, [&](const std::string& each) { return number_of(each) > number_of(name_); });
  waiting_.assign(newer, paths.end());
  return !waiting_.empty();
}

// After the last chunk.
void RecordingInput::close_file() {
  counts_.file_bytes += reader_.size();
  if (const auto& cut = reader_.cut()) {
    remark(fmt::format("truncated within a chunk at {}: the last {} bytes are ignored", cut->offset,
                       cut->bytes));
  } else if (!reader_.is_complete()) {
    remark("not closed by its writer, which was killed or still runs; read up to the last chunk");
  }
  lost_ = lost_ || !reader_.is_complete();
  if (reader_.foreign_chunks() > 0) {
    remark(fmt::format("{} chunks need a newer version of Forestall", reader_.foreign_chunks()));
  }
}

Result<bool> RecordingInput::next_file() {
  while (!waiting_.empty()) {
    const bool hole = !is_next(name_, waiting_.front());
    name_ = std::move(waiting_.front());
    waiting_.pop_front();
    if (hole) remark("earlier segments were removed");
    lost_ = lost_ || hole;
    auto reader = Reader::open(name_);
    if (!reader) {
      // The writer of the ring may have removed it meanwhile.
      remarks_.push_back(reader.error().text());
      lost_ = true;
      continue;
    }
    auto facts = messages::decode_facts(reader->header().facts);
    if (!facts) {
      remark(facts.error().text());
      lost_ = true;
      continue;
    }
    reader_ = std::move(*reader);
    reported_damages_ = 0;
    new_run_ = new_run_ || facts->boot_id != facts_.boot_id || facts->pid != facts_.pid ||
               facts->began != facts_.began;
    facts_ = std::move(*facts);
    return true;
  }
  return false;
}

void RecordingInput::remark(std::string text) {
  if (remarks_.size() < kRemarksMax) {
    remarks_.push_back(name_ + ": " + std::move(text));
  } else if (remarks_.size() == kRemarksMax) {
    remarks_.push_back("further remarks are omitted");
  }
}

Result<MonotonicTime> RecordingInput::seek(Duration since_first) {
  const auto places = TRY(reader_.places());
  const std::int64_t first = places.empty() ? 0 : places.front().first_ns;
  std::int64_t wanted = 0;
  // Possible only in a forged file.
  if (__builtin_add_overflow(first, since_first.count(), &wanted)) wanted = INT64_MAX;
  TRY(reader_.seek(wanted));
  return from_ns(first);
}

}  // namespace forestall::replay
