// SPDX-License-Identifier: Apache-2.0
#include "text_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>

namespace forestall::bench {

void fail(const std::string& what) {
  std::fprintf(stderr, "%s: %s\n", what.c_str(), std::strerror(errno));
  std::_Exit(1);
}

std::string read_file(const std::string& path) {
  std::string text;
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return text;
  char buffer[4096];
  for (ssize_t got = 0; (got = read(fd, buffer, sizeof buffer)) > 0;) {
    text.append(buffer, static_cast<std::size_t>(got));
  }
  close(fd);
  return text;
}

HeldText::HeldText(const char* path) : fd_(open(path, O_RDONLY | O_CLOEXEC)) {}

std::string_view HeldText::read() {
  const ssize_t got = fd_ < 0 ? 0 : pread(fd_, buffer_, sizeof buffer_, 0);
  return {buffer_, got > 0 ? static_cast<std::size_t>(got) : 0};
}

bool write_file(const std::string& path, const std::string& text) {
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
  if (fd < 0) return false;
  const bool whole = write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  close(fd);
  return whole;
}

std::int64_t number_after(std::string_view text, std::string_view key) {
  for (std::size_t at = text.find(key); at != text.npos; at = text.find(key, at + 1)) {
    if (at != 0 && text[at - 1] != '\n') continue;
    std::int64_t value = 0;
    for (at += key.size(); at < text.size() && (text[at] == ' ' || text[at] == ':'); ++at) {
    }
    for (; at < text.size() && text[at] >= '0' && text[at] <= '9'; ++at) {
      value = value * 10 + (text[at] - '0');
    }
    return value;
  }
  return 0;
}

std::int64_t parse_bytes(const std::string& text) {
  char* unit = nullptr;
  const std::int64_t count = std::strtoll(text.c_str(), &unit, 10);
  switch (*unit) {
    case 'K': return count << 10;
    case 'M': return count << 20;
    case 'G': return count << 30;
    default: return count;
  }
}

std::int64_t monotonic_us() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return std::int64_t{now.tv_sec} * 1'000'000 + now.tv_nsec / 1000;
}

}  // namespace forestall::bench
