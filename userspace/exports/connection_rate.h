// SPDX-License-Identifier: Apache-2.0
// How often clients may connect to a server that any pod may reach.
//
// The kernel frees a part of each closed connection, its inode of 832 bytes, only after an RCU
// grace period, which takes seconds on a machine whose CPUs are all busy. No limit of open
// connections bounds that memory, and clients that connect as fast as they can would fill the
// server's memory limit with it. So an address that connects too often is refused by a socket
// filter on the listening socket (socket(7), SO_ATTACH_FILTER) until the period ends: its packets
// are dropped, and its client tries again after a second. Where the kernel refuses the filter (some
// permit it only with CAP_NET_ADMIN), the server closes them as it accepts them. After every kBatch
// connections of any address it waits for a grace period.
#pragma once

#include <linux/filter.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"

namespace forestall::exports {

class ConnectionRate {
 public:
  static constexpr Duration kPeriod = std::chrono::seconds(1);
  static constexpr int kOfAddress = 256;  // in a period
  static constexpr int kBatch = 1024;
  // Addresses that the filter refuses. Others are limited by kBatch.
  static constexpr std::size_t kRefusedMax = 32;

  // `listening` outlives it.
  explicit ConnectionRate(int listening) : listening_(listening) {}

  // Whether a connection that was accepted may stay. `address`: as bytes, 4 of IPv4 or 16 of IPv6.
  bool admit(const std::string& address, MonotonicTime now);
  // No further one is to be accepted before await_memory().
  [[nodiscard]] bool is_full() const { return batch_ >= kBatch; }
  // Waits until the kernel can free what the closed ones of the batch left. If that cannot be
  // waited for (one CPU, nohz_full), is_full() is true until the period ends.
  void await_memory();
  // When renew() is due: some are refused until then. Nothing: none is.
  [[nodiscard]] std::optional<MonotonicTime> resumes() const;
  // Ends the period if it is over.
  void renew(MonotonicTime now);

 private:
  void refuse(const std::string& address);

  const int listening_;
  std::optional<MonotonicTime> ends_;  // of the period; nothing: no connection since the last one
  int batch_ = 0;
  std::map<std::string, int> of_;
  std::vector<std::string> refused_;
};

// Drops packets from these addresses. At most kRefusedMax; others than of 4 or 16 bytes are left
// out.
[[nodiscard]] std::vector<sock_filter> refusing_filter(const std::vector<std::string>& addresses);

}  // namespace forestall::exports
