// SPDX-License-Identifier: Apache-2.0
// Small kernel files, read and written whole, and their numbers.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace forestall::bench {

// Ends the process with the operation and errno: nothing here can continue without it.
[[noreturn]] void fail(const std::string& what);

// The whole file; empty if it cannot be read.
std::string read_file(const std::string& path);

// A file that is read repeatedly through one descriptor.
class HeldText {
 public:
  explicit HeldText(const char* path);
  // Its present text; valid until the next call. Empty if the file does not exist.
  std::string_view read();

 private:
  int fd_;
  char buffer_[16384];
};

// Whether the text could be written.
bool write_file(const std::string& path, const std::string& text);

// The number that follows a key at the beginning of a line; 0 if there is none.
std::int64_t number_after(std::string_view text, std::string_view key);

// "50M", "4K", "2G" or plain bytes.
std::int64_t parse_bytes(const std::string& text);

// CLOCK_MONOTONIC, which the trace's timestamps are in too.
std::int64_t monotonic_us();

}  // namespace forestall::bench
