//! Partition of an image's pixels into growing regions: union–find with the area and the colour sums of each region.

#[derive(Clone, Debug)]
pub(crate) struct Partition {
    parent: Vec<u32>,
    area: Vec<u32>,
    sums: Vec<[u32; 3]>,
}

impl Partition {
    pub(crate) fn of_pixels(rgb: &[u8]) -> Self {
        let sums: Vec<[u32; 3]> =
            rgb.chunks_exact(3).map(|pixel| [pixel[0], pixel[1], pixel[2]].map(u32::from)).collect();
        Partition { parent: (0..sums.len() as u32).collect(), area: vec![1; sums.len()], sums }
    }

    /// Returns the representative of the region of `pixel`, and shortens the path to it by path halving.
    pub(crate) fn find(&mut self, mut pixel: u32) -> u32 {
        while self.parent[pixel as usize] != pixel {
            let grandparent = self.parent[self.parent[pixel as usize] as usize];
            self.parent[pixel as usize] = grandparent;
            pixel = grandparent;
        }
        pixel
    }

    pub(crate) fn area(&self, root: u32) -> u32 {
        self.area[root as usize]
    }

    pub(crate) fn mean(&self, root: u32) -> [f32; 3] {
        let area = self.area[root as usize] as f32;
        self.sums[root as usize].map(|sum| sum as f32 / area)
    }

    /// Joins two regions. `a` and `b` must be different representatives.
    pub(crate) fn join(&mut self, a: u32, b: u32) {
        let (keep, drop) = if self.area[a as usize] >= self.area[b as usize] { (a, b) } else { (b, a) };
        self.parent[drop as usize] = keep;
        self.area[keep as usize] += self.area[drop as usize];
        for channel in 0..3 {
            self.sums[keep as usize][channel] += self.sums[drop as usize][channel];
        }
    }

    /// Returns the region number of every pixel, counted in the order of first appearance, and the number of regions.
    pub(crate) fn dense_labels(&mut self) -> (Vec<u32>, usize) {
        let mut number = vec![u32::MAX; self.parent.len()];
        let mut count = 0;
        let labels = (0..self.parent.len() as u32)
            .map(|pixel| {
                let slot = self.find(pixel) as usize;
                if number[slot] == u32::MAX {
                    number[slot] = count;
                    count += 1;
                }
                number[slot]
            })
            .collect();
        (labels, count as usize)
    }
}
