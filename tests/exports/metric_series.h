// SPDX-License-Identifier: Apache-2.0
// The text of the metrics, parsed line by line, as Prometheus does.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <sstream>
#include <string>

#include "exports/metrics.h"

namespace forestall::exports {

// Every series with its value; fails on any line that is neither a series nor a comment.
inline std::map<std::string, double> series_of(const std::string& text) {
  std::map<std::string, double> series;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("# HELP ") || line.starts_with("# TYPE ")) continue;
    const auto blank = line.rfind(' ');
    EXPECT_NE(blank, std::string::npos) << line;
    if (blank == std::string::npos) continue;
    const auto [entry, fresh] =
        series.emplace(line.substr(0, blank), std::stod(line.substr(blank + 1)));
    EXPECT_TRUE(fresh) << "exported twice: " << line;
  }
  return series;
}

inline std::map<std::string, double> series_of(const Metrics& metrics) {
  return series_of(metrics.text());
}

}  // namespace forestall::exports
