// SPDX-License-Identifier: Apache-2.0
#include "exports/connection_rate.h"

#include <linux/membarrier.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <string_view>

namespace forestall::exports {
namespace {

constexpr std::uint32_t kKeep = UINT32_MAX;  // all bytes of the packet
constexpr std::uint32_t kDrop = 0;
constexpr std::uint32_t kSourceOfV4 = 12;  // in the IP header
constexpr std::uint32_t kSourceOfV6 = 8;
constexpr std::size_t kV4Bytes = 4;
constexpr std::size_t kV6Bytes = 16;

sock_filter statement(std::uint16_t code, std::uint32_t value) {
  return {.code = code, .jt = 0, .jf = 0, .k = value};
}

sock_filter load_word(std::uint32_t offset) {
  return statement(BPF_LD | BPF_W | BPF_ABS, static_cast<std::uint32_t>(SKF_NET_OFF) + offset);
}

// Goes on if equal, else over `skipped` instructions.
sock_filter require_equal(std::uint32_t value, std::size_t skipped) {
  return {.code = BPF_JMP | BPF_JEQ | BPF_K,
          .jt = 0,
          .jf = static_cast<std::uint8_t>(skipped),
          .k = value};
}

std::uint32_t word_at(std::string_view bytes, std::size_t at) {
  std::uint32_t word = 0;
  std::memcpy(&word, bytes.data() + at, sizeof(word));
  return ntohl(word);
}

bool is_mapped_v4(std::string_view address) {
  in6_addr bytes{};
  if (address.size() != sizeof(bytes)) return false;
  std::memcpy(&bytes, address.data(), sizeof(bytes));
  return IN6_IS_ADDR_V4MAPPED(&bytes);
}

std::vector<sock_filter> refuse_v4(std::string_view address) {
  return {require_equal(word_at(address, 0), 1), statement(BPF_RET | BPF_K, kDrop)};
}

std::vector<sock_filter> refuse_v6(std::string_view address) {
  std::vector<sock_filter> code;
  constexpr std::size_t kInstructions = kV6Bytes / 4 * 2 + 1;
  for (std::size_t at = 0; at < kV6Bytes; at += 4) {
    code.push_back(load_word(kSourceOfV6 + static_cast<std::uint32_t>(at)));
    code.push_back(require_equal(word_at(address, at), kInstructions - code.size() - 1));
  }
  code.push_back(statement(BPF_RET | BPF_K, kDrop));
  return code;
}

void append(std::vector<sock_filter>& code, const std::vector<sock_filter>& more) {
  code.insert(code.end(), more.begin(), more.end());
}

}  // namespace

std::vector<sock_filter> refusing_filter(const std::vector<std::string>& addresses) {
  std::vector<sock_filter> v4{load_word(kSourceOfV4)};
  std::vector<sock_filter> v6;
  for (const std::string& each : addresses) {
    if (is_mapped_v4(each))
      append(v4, refuse_v4(std::string_view(each).substr(12)));
    else if (each.size() == kV4Bytes)
      append(v4, refuse_v4(each));
    else if (each.size() == kV6Bytes)
      append(v6, refuse_v6(each));
  }
  const sock_filter keep = statement(BPF_RET | BPF_K, kKeep);
  v4.push_back(keep);
  v6.push_back(keep);
  // The version of IP is the upper half of the header's first byte.
  constexpr std::uint32_t kVersion4 = 4;
  std::vector<sock_filter> code{
      statement(BPF_LD | BPF_B | BPF_ABS, static_cast<std::uint32_t>(SKF_NET_OFF)),
      statement(BPF_ALU | BPF_RSH | BPF_K, 4), require_equal(kVersion4, 0),
      statement(BPF_JMP | BPF_JA, static_cast<std::uint32_t>(v4.size()))};
  code[2].jt = 1;
  append(code, v4);
  append(code, v6);
  return code;
}

bool ConnectionRate::admit(const std::string& address, MonotonicTime now) {
  renew(now);
  if (!ends_) ends_ = now + kPeriod;
  ++batch_;
  const int count = ++of_[address];
  if (count == kOfAddress) refuse(address);
  return count <= kOfAddress;
}

// Those that wait in the backlog by then are accepted and closed.
void ConnectionRate::refuse(const std::string& address) {
  if (refused_.size() == kRefusedMax) return;
  refused_.push_back(address);
  std::vector<sock_filter> code = refusing_filter(refused_);
  const sock_fprog program{.len = static_cast<std::uint16_t>(code.size()), .filter = code.data()};
  // Refused, it closes connections instead: admit() counts on.
  static_cast<void>(
      setsockopt(listening_, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program)));
}

// MEMBARRIER_CMD_GLOBAL is synchronize_rcu(), and nothing at all with one CPU (membarrier(2)).
void ConnectionRate::await_memory() {
  const bool waited = sysconf(_SC_NPROCESSORS_ONLN) > 1 &&
                      syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0) == 0;
  if (waited) batch_ = 0;
}

std::optional<MonotonicTime> ConnectionRate::resumes() const {
  if (refused_.empty() && !is_full()) return std::nullopt;
  return ends_;
}

void ConnectionRate::renew(MonotonicTime now) {
  if (!ends_ || now < *ends_) return;
  const int none = 0;
  // Fails if none is attached.
  if (!refused_.empty()) {
    static_cast<void>(setsockopt(listening_, SOL_SOCKET, SO_DETACH_FILTER, &none, sizeof(none)));
  }
  ends_.reset();
  batch_ = 0;
  of_.clear();
  refused_.clear();
}

}  // namespace forestall::exports
